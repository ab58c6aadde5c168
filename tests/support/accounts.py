"""Servers with ACL 1.0 for tests: files of accounts, and the programs on them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from cometmq.model.credentials import Credentials
from tests.support.processes import Program
from tests.support.programs import small_cluster

CANARY = "canary-secret-7f3a"
ADMIN = Credentials("the-admin", f"{CANARY}-admin")
# Of a guarded broker without slaves: it must say who may copy its log.
NO_SLAVES = {"haAllowedAddresses": "127.0.0.1"}
INNER = Credentials("the-broker", f"{CANARY}-inner")


def account(credentials: Credentials, **more: object) -> dict[str, object]:
    """An account as a file has it."""
    return {
        "accessKey": credentials.access_key,
        "secretKey": credentials.secret_key,
        **more,
    }


def write_accounts(path: Path, *accounts: Mapping[str, object]) -> Path:
    """A file that only its owner may read, replaced as editors do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".fresh")
    fresh.write_text(yaml.safe_dump({"accounts": [dict(each) for each in accounts]}))
    fresh.chmod(0o600)
    fresh.replace(path)
    return path


def tools_file(path: Path, who: Credentials) -> Path:
    """A file of credentials that only its owner may read, as commands take it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"accessKey: {who.access_key}\nsecretKey: {who.secret_key}\n")
    path.chmod(0o600)
    return path


def inner_setting() -> dict[str, object]:
    """What brokers sign with."""
    keys = {"accessKey": INNER.access_key, "secretKey": INNER.secret_key}
    return {"innerClientAuthenticationCredentials": json.dumps(keys)}


@contextmanager
def guarded_cluster(
    folder: Path,
    *accounts: Mapping[str, object],
    both: Mapping[str, object] | None = None,
    **settings: object,
) -> Iterator[tuple[Program, Program]]:
    """A nameserver and a broker that both ask for rights, with an admin, the broker's own account, and these.

    `both` are settings of both, `settings` of the broker.
    """
    own = (account(ADMIN, admin=True), account(INNER, admin=True))
    for name in ("nameserver", "broker"):
        write_accounts(folder / name / "plain_acl.yml", *own, *accounts)
    of_both = {"aclEnable": "true", **(both or {})}
    of_broker = {**of_both, **NO_SLAVES, **inner_setting(), **settings}
    with small_cluster(folder, of_both, **of_broker) as programs:
        yield programs
