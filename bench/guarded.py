"""Brokers that ask who sends, ours and Java's: with the same users and policies of Auth 2.0, and TLS beside what is plain."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.systems import JAVA, JAVA_HEAP, LOG_FILE_SIZE, SETTINGS, Running
from cometmq.codec.remoting import Command
from cometmq.codec.signer import Signer
from cometmq.model.credentials import Credentials
from tests.interop import reference
from tests.interop.mqadmin_session import java_providers
from tests.support import certificates, processes
from tests.support.accounts import NO_SLAVES
from tests.support.auth_users import auth_settings
from tests.support.frames import ask
from tests.support.processes import Program, wait_until

CREATE_USER, CREATE_POLICIES = 3001, 3006
ROOT = Credentials("bench-root", "bench-root-secret")
LOADER = Credentials("bench-loader", "bench-loader-secret")
ENTRIES = 20  # Of each user.


@contextmanager
def guarded(name: str, folder: Path) -> Iterator[Running]:
    """A broker with users, rights and TLS beside what is plain, and the user that the load signs as."""
    nameserver = reference.nameserver if name == JAVA else processes.nameserver
    names = nameserver(folder / "nameserver")
    settings = auth_settings(ROOT, ROOT, **SETTINGS, mappedFileSizeCommitLog=LOG_FILE_SIZE)
    tls = certificates.server_keys(certificates.authority(folder / "ca"))
    if name == JAVA:
        program = java_broker(folder, names.address, settings, tls)
    else:
        both = {**settings, **tls, **NO_SLAVES, "tls.server.mode": "permissive"}
        program = processes.broker(folder / "broker", names.address, settings=both)
        program.env["PYTHONDONTWRITEBYTECODE"] = ""
    program.own_group = True
    with reference.served(names, program):
        make_loader(program.address)
        yield Running(name, names.address, program, 0.0)


def java_broker(
    folder: Path, names: str, settings: Mapping[str, object], tls: Mapping[str, object]
) -> Program:
    """Java's, with its own providers; what it is told about TLS are properties of the JVM and a file that they name."""
    program = reference.broker(
        folder / "broker",
        names,
        heap=JAVA_HEAP,
        settings={**settings, **java_providers(folder)},
        options=(),
    )
    conf = processes.write_conf(
        folder / "tls.properties", {"tls.test.mode.enable": "false", **tls}
    )
    program.command[1:1] = ["-Dtls.server.mode=permissive", f"-Dtls.config.file={conf}"]
    return program


def make_loader(address: str) -> None:
    """The user of the load, with as many entries as others have in a large company."""
    user = {
        "username": LOADER.access_key, "password": LOADER.secret_key, "userType": "Normal", "userStatus": "enable",
    }  # fmt: skip
    subject = f"User:{LOADER.access_key}"
    entries = [
        {"resource": f"Topic:other-{number}", "actions": ["Pub"], "decision": "Allow"}
        for number in range(ENTRIES - 2)
    ]
    entries += [
        {"resource": "Topic:*", "actions": ["Pub", "Sub", "Get"], "decision": "Allow"},
        {"resource": "Group:*", "actions": ["Sub", "Get"], "decision": "Allow"},
    ]
    policies = {
        "subject": subject, "policies": [{"policyType": "Custom", "entries": entries}],
    }  # fmt: skip
    as_root(address, CREATE_USER, user, username=LOADER.access_key)
    as_root(address, CREATE_POLICIES, policies, subject=subject)


def as_root(address: str, code: int, body: object, **fields: str) -> None:
    """Ask as the first user, until it is done: Java's broker listens some time before it does such things."""
    command = Signer(ROOT).signed(Command(code, fields=fields, body=json.dumps(body).encode()))

    def is_done() -> bool:
        header, _ = ask(address, code, command.fields, command.body)
        return header["code"] == 0 or "exist" in str(header.get("remark"))

    wait_until(is_done, seconds=30, what=f"request {code} at {address}")
