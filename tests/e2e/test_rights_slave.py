"""A slave and its master with users and rights: who copies signs, users are made at both, and both ask everybody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from cometmq import Admin, ClientSettings, Credentials, Message, Producer, ProducerSettings
from cometmq.model.codes import RequestCode, ResponseCode
from tests.attacks.stranger import Answered, Stranger
from tests.support import processes
from tests.support.accounts import CANARY, tools_file
from tests.support.auth_users import ROOT, auth_settings
from tests.support.command_line import run
from tests.support.processes import Program, wait_until
from tests.support.request_fields import pull_fields

ALICE = Credentials("alice", f"{CANARY}-alice")
TOPIC = "orders"
PULL = pull_fields(TOPIC, consumerGroup="readers")
SECRET = "a-secret-of-the-group"


def member(folder: Path, names: str, **role: object) -> Program:
    """A member of the group, which proves by a secret that it is one."""
    secret = folder.parent / "ha.secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    settings = auth_settings(haSecretFile=secret, **role)
    return processes.broker(folder, names, settings=settings)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, Program]]:
    """Nameserver, master and slave, all with users; the folder, the nameserver's address, the slave."""
    folder = tmp_path_factory.mktemp("rights-slave")
    settings: dict[str, Any] = auth_settings(authConfigPath=folder / "users")
    names = processes.nameserver(folder / "names", **settings)
    role = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"}
    with names, member(folder / "master", names.address):
        with Admin(names.address, settings=ClientSettings(credentials=ROOT)) as admin:
            admin.topics.create(TOPIC, queues=1)
        with Producer(names.address, settings=ProducerSettings(credentials=ROOT)) as producer:
            for _ in range(3):
                producer.send(Message(TOPIC, b"copied"))
        with member(folder / "slave", names.address, **role) as slave:
            yield folder, names.address, slave


def pulled(slave: Program, who: Credentials) -> Answered:
    """What the slave answers to a pull."""
    with Stranger(slave.address) as stranger:
        return stranger.ask_as(who, RequestCode.PULL_MESSAGE, PULL)


def acl(group: tuple[Path, str, Program], *words: str, stdin: bytes = b"") -> bytes:
    """What `cometmq acl` prints, signed by root."""
    folder, names, _ = group
    credentials = tools_file(folder / "tools.yml", ROOT)
    done = run("acl", *words, nameserver=names, stdin=stdin, credentials=credentials)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_slave_signs_what_it_asks_its_master_and_asks_rights_itself(group):
    folder, _, slave = group
    wait_until(
        lambda: pulled(slave, ROOT).body.count(b"copied") == 3,
        seconds=60,
        what="what was sent, at the slave",
    )
    assert pulled(slave, ALICE).code == ResponseCode.NO_PERMISSION
    acl(group, "create", ALICE.access_key, stdin=f"{ALICE.secret_key}\n".encode())
    [alice] = [
        each
        for each in orjson.loads(acl(group, "list", "--json"))
        if each["user"] == ALICE.access_key
    ]
    assert sorted(alice["brokers"]) == ["broker-a:0", "broker-a:1"]
    assert pulled(slave, ALICE).code == ResponseCode.NO_PERMISSION
    acl(group, "allow", ALICE.access_key, f"Topic:{TOPIC}", "Sub")
    acl(group, "allow", ALICE.access_key, "Group:readers", "Sub")
    answer = pulled(slave, ALICE)
    assert (answer.code, answer.body.count(b"copied")) == (ResponseCode.SUCCESS, 3)
    for name in ("names/nameserver.log", "master/broker.log", "slave/broker.log"):
        assert CANARY not in (folder / name).read_text()
