"""`cometmq acl`, as processes against a real cluster with Auth 2.0."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support import json_tables, processes
from tests.support.accounts import ADMIN, NO_SLAVES, guarded_cluster
from tests.support.command_line import COMETMQ, environment, run

ROOT = ("root", "canary-root-password")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("acl")
    first = json.dumps({"username": ROOT[0], "password": ROOT[1]})
    inner = json.dumps({"accessKey": "inner", "secretKey": "canary-inner-password"})
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": first,
        "innerClientAuthenticationCredentials": inner,
        **NO_SLAVES,
    }
    credentials = folder / "tools.yml"
    credentials.write_text(f"accessKey: {ROOT[0]}\nsecretKey: {ROOT[1]}\n")
    credentials.chmod(0o600)
    with processes.nameserver(folder / "nameserver") as names:
        broker = processes.broker(folder / "broker", names.address, settings=settings)
        (folder / "broker" / "broker.conf").chmod(0o600)
        broker.is_ready = broker.has_booted
        with broker:
            yield names.address, credentials


def acl(
    cluster: tuple[str, Path], *arguments: str, stdin: bytes = b"", status: int = 0
) -> subprocess.CompletedProcess[bytes]:
    names, credentials = cluster
    done = subprocess.run(
        [*COMETMQ, "--credentials", str(credentials), "acl", *arguments],
        input=stdin,
        capture_output=True,
        env=environment(names),
        timeout=30,
        check=False,
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def printed(cluster: tuple[str, Path], *arguments: str, status: int = 0) -> Any:
    return orjson.loads(acl(cluster, *arguments, "--json", status=status).stdout)


def test_a_user_is_made_allowed_and_denied_and_it_is_said_which_entry_decides(
    cluster: tuple[str, Path],
) -> None:
    acl(cluster, "create", "alice", stdin=b"canary-alice-password\n")
    acl(cluster, "allow", "alice", "Topic:orders*", "Pub", "Sub")
    acl(cluster, "deny", "alice", "Topic:orders-secret", "All")
    acl(cluster, "allow", "alice", "Group:billing", "Sub", "--from", "10.0.0.0/8")
    users = printed(cluster, "users")
    json_tables.check("acl users", users)
    assert {"user": "alice", "type": "Normal", "status": "enable", "brokers": ["broker-a:0"]} in users  # fmt: skip
    entries = printed(cluster, "policies", "alice")
    json_tables.check("acl policies", entries)
    assert [(each["resource"], each["decision"]) for each in entries] == [
        ("Group:billing", "Allow"),
        ("Topic:orders*", "Allow"),
        ("Topic:orders-secret", "Deny"),
    ]
    tests: list[tuple[tuple[str, ...], bool, str]] = [
        (("SEND_MESSAGE_V2", "Topic:orders-1"), True, "Topic:orders* allows Pub, Sub"),
        (("10", "Topic:orders-secret"), False, "Topic:orders-secret denies All"),
        (("PULL_MESSAGE", "Group:billing"), False, "no entry of a policy matches"),
        (("PULL_MESSAGE", "Group:billing", "--from", "10.1.2.3"), True, "from 10.0.0.0/8"),
    ]
    for arguments, is_allowed, says in tests:
        [found] = printed(cluster, "test", "alice", *arguments, status=int(not is_allowed))
        json_tables.check("acl test", [found])
        assert (found["allowed"], says in found["reason"]) == (is_allowed, True), found
    acl(cluster, "remove", "alice", "Topic:orders-secret")
    [found] = printed(cluster, "test", "alice", "10", "Topic:orders-secret")
    assert found["resource"] == "Topic:orders*"
    acl(cluster, "password", "alice", stdin=b"canary-other-password\n")
    acl(cluster, "delete", "alice", "--yes")
    [gone] = printed(cluster, "test", "alice", "10", "Topic:orders-1", status=1)
    assert gone["reason"] == "user 'alice' does not exist"
    root = printed(cluster, "test", "root", "UPDATE_BROKER_CONFIG", "Cluster:DefaultCluster")
    assert "Super user" in root[0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("allow", "bob", "Topik:x", "Pub"), 2, "resource"),
        (("allow", "bob", "Topic:x", "Publish"), 2, "actions"),
        (("allow", "bob", "Topic:x", "Pub", "--from", "300.1.1.1"), 2, "sourceIps"),
        (("test", "bob", "NO_SUCH", "Topic:x"), 2, "is not a request code of a broker"),
        (("test", "bob", "PULL_MESSAGE", "Cluster:x"), 2, "needs no right for a Cluster"),
        (("test", "bob", "PULL_MESSAGE", "x"), 2, "write Topic:NAME"),
        (("test", "bob", "HEART_BEAT", "Topic:x"), 2, "names its resources in its body"),
        (("create", "bob"), 2, "no password was given"),
        (("delete", "nobody", "--yes"), 3, "user 'nobody' does not exist"),
        (("delete", "root"), 3, "nothing was done"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    cluster: tuple[str, Path], arguments: tuple[str, ...], status: int, says: str
) -> None:
    done = acl(cluster, *arguments, status=status)
    assert says in done.stderr.decode()
    assert b"canary" not in done.stderr


def test_the_doctor_and_the_brokers_log_tell_of_a_nameserver_that_asks_for_no_signature(
    cluster,
):
    names, credentials = cluster
    done = run("doctor", "--json", nameserver=names, credentials=credentials)
    assert done.returncode == 1
    found = [
        each for each in json.loads(done.stdout) if "require signed requests" in each["text"]
    ]
    assert [(each["check"], each["subject"], each["severity"]) for each in found] == [
        ("nameserver", names, "bad")
    ]
    log = (credentials.parent / "broker" / "broker.log").read_text()
    assert f"but nameserver {names} does not" in log


def test_where_both_or_none_ask_for_signatures_nothing_is_said(tmp_path):
    with guarded_cluster(tmp_path / "both") as (names, broker):
        credentials = tmp_path / "tools.yml"
        credentials.write_text(
            f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n"
        )
        credentials.chmod(0o600)
        done = run("doctor", "--json", nameserver=names.address, credentials=credentials)
        assert "require signed requests" not in done.stdout.decode()
        assert "requires signatures" not in broker.log.read_text()
    with (
        processes.nameserver(tmp_path / "names") as names,
        processes.broker(tmp_path / "broker", names.address) as broker,
    ):
        done = run("doctor", "--json", nameserver=names.address)
        assert "require signed requests" not in done.stdout.decode()
        assert "requires signatures" not in broker.log.read_text()
