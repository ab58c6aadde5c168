"""`cometmq acl`, as processes against a real cluster with Auth 2.0."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from cometmq import Admin, ClientSettings, Credentials, Message, Producer, ProducerSettings
from cometmq.admin import GroupConfig
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from tests.e2e.test_operators_doctor import script
from tests.support.accounts import ADMIN, NO_SLAVES, guarded_cluster, tools_file
from tests.support.auth_users import ROOT, auth_settings
from tests.support.command_line import run
from tests.support.programs import small_cluster
from tests.support.scripted import Scripted


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("acl")
    with small_cluster(folder, **auth_settings(**NO_SLAVES)) as (names, _):
        yield names.address, tools_file(folder / "tools.yml", ROOT)


def acl(
    cluster: tuple[str, Path], *arguments: str, stdin: bytes = b"", status: int = 0
) -> subprocess.CompletedProcess[bytes]:
    names, credentials = cluster
    done = run("acl", *arguments, nameserver=names, stdin=stdin, credentials=credentials)
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
    acl(cluster, "allow", "alice", "Group:billing", "Sub", "--source", "10.0.0.0/8")
    users = printed(cluster, "list")
    assert {"user": "alice", "type": "Normal", "status": "enable", "brokers": ["broker-a:0"]} in users  # fmt: skip
    entries = printed(cluster, "show", "alice")
    assert [(each["resource"], each["decision"]) for each in entries] == [
        ("Group:billing", "Allow"),
        ("Topic:orders*", "Allow"),
        ("Topic:orders-secret", "Deny"),
    ]
    tests: list[tuple[tuple[str, ...], bool, str]] = [
        (("SEND_MESSAGE_V2", "Topic:orders-1"), True, "Topic:orders* allows Pub, Sub"),
        (("10", "Topic:orders-secret"), False, "Topic:orders-secret denies All"),
        (("PULL_MESSAGE", "Group:billing"), False, "no entry of a policy matches"),
        (("PULL_MESSAGE", "Group:billing", "--source", "10.1.2.3"), True, "from 10.0.0.0/8"),
    ]
    for arguments, is_allowed, says in tests:
        [found] = printed(cluster, "test", "alice", *arguments, status=int(not is_allowed))
        assert (found["allowed"], says in found["reason"]) == (is_allowed, True), found
    acl(cluster, "remove", "alice", "Topic:orders-secret")
    [found] = printed(cluster, "test", "alice", "10", "Topic:orders-secret")
    assert found["resource"] == "Topic:orders*"
    acl(cluster, "set", "alice", "--password", stdin=b"canary-other-password\n")
    acl(cluster, "delete", "alice", "--yes")
    [gone] = printed(cluster, "test", "alice", "10", "Topic:orders-1", status=1)
    assert gone["reason"] == "user 'alice' does not exist"
    root = printed(cluster, "test", "root", "UPDATE_BROKER_CONFIG", "Cluster:DefaultCluster")
    assert "Super user" in root[0]["reason"]


def test_a_user_is_disabled_and_made_a_super_user(cluster: tuple[str, Path]) -> None:
    acl(cluster, "create", "carol", stdin=b"canary-carol-password\n")
    acl(cluster, "set", "carol", "--disable", "--super")
    known = {each["user"]: (each["type"], each["status"]) for each in printed(cluster, "list")}
    assert known["carol"] == ("Super", "disable")
    [found] = printed(cluster, "test", "carol", "10", "Topic:orders-1", status=1)
    assert found["reason"] == "the user is disabled"
    acl(cluster, "set", "carol", "--enable", "--no-super")
    known = {each["user"]: (each["type"], each["status"]) for each in printed(cluster, "list")}
    assert known["carol"] == ("Normal", "enable")
    acl(cluster, "delete", "carol", "--yes")


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("allow", "bob", "Topik:x", "Pub"), 2, "resource"),
        (("allow", "bob", "Topic:x", "Publish"), 2, "actions"),
        (("allow", "bob", "Topic:x", "Pub", "--source", "300.1.1.1"), 2, "sourceIps"),
        (("test", "bob", "NO_SUCH", "Topic:x"), 2, "is not a request code of a broker"),
        (("test", "bob", "PULL_MESSAGE", "Cluster:x"), 2, "needs no right for a Cluster"),
        (("test", "bob", "PULL_MESSAGE", "x"), 2, "write Topic:NAME"),
        (("test", "bob", "HEART_BEAT", "Topic:x"), 2, "names its resources in its body"),
        (("create", "bob"), 2, "no password was given"),
        (("set", "bob"), 2, "name at least one option"),
        (("set", "bob", "--password"), 2, "no password was given"),
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


def policies_of(user: str, action: str) -> bytes:
    """What a broker answers that has one entry of one user."""
    entry = {"resource": "Topic:orders", "actions": [action], "decision": "Allow"}
    policies = [{"policyType": "Custom", "entries": [entry]}]
    return orjson.dumps([{"subject": f"User:{user}", "policies": policies}])


ENTRY, MALFORMED = policies_of("alice", "Get"), policies_of("bob", "Fly")
ALICE = b'[{"username": "alice", "userType": "Normal", "userStatus": "enable"}]'
# What two brokers answer about users and policies; None: they refuse it.
USERS, POLICIES = RequestCode.AUTH_LIST_USER, RequestCode.AUTH_LIST_ACL
TEST = ("test", "alice", "10", "Topic:orders")


@pytest.mark.parametrize(
    ("command", "one", "two", "status", "lines", "error"),
    [
        (("list",), (ALICE, None), (ALICE, None), 0, 1, ""),
        (("list",), (ALICE, None), (None, None), 0, 1, "error: two:0: "),
        (("list",), (None, None), (None, None), 3, 0, "error: "),
        (("show",), (None, ENTRY), (None, ENTRY), 0, 1, ""),
        (("show",), (ALICE, None), (ALICE, None), 3, 0, "error: "),
        (("show", "alice"), (None, ENTRY), (None, MALFORMED), 0, 1, ""),
        (
            ("show",),
            (None, MALFORMED),
            (None, ENTRY),
            1,
            1,
            "error: one:0: the policies of user 'bob' ",
        ),
        (TEST, (ALICE, ENTRY), (None, ENTRY), 1, 1, "error: two:0: "),
        (TEST, (ALICE, ENTRY), (ALICE, MALFORMED), 1, 2, ""),
        (
            TEST,
            (ALICE, ENTRY),
            (ALICE, policies_of("alice", "Fly")),
            2,
            0,
            "error: two:0: the policies of user 'alice' ",
        ),
        (TEST, (ALICE, None), (ALICE, None), 3, 0, "error: "),
    ],
)
async def test_only_what_is_shown_is_asked_for_and_what_is_refused_is_said(
    command: tuple[str, ...],
    one: tuple[bytes | None, bytes | None],
    two: tuple[bytes | None, bytes | None],
    status: int,
    lines: int,
    error: str,
) -> None:
    async with Scripted() as names, Scripted() as first, Scripted() as second:
        script(names, one=first, two=second)
        for broker, answers in ((first, one), (second, two)):
            for code, body in zip((USERS, POLICIES), answers, strict=True):
                if body is not None:
                    broker.scripts[code] = partial(answered, body)
        done = await asyncio.to_thread(run, "acl", *command, "--json", nameserver=names.address)
    said = done.stderr.decode()
    assert done.returncode == status, said
    assert len(orjson.loads(done.stdout or b"[]")) == lines
    assert said.startswith(error)
    assert said.count("\n") == bool(error)


def answered(body: bytes, _command: Command, _peer: Peer) -> Answer:
    return Answer(body=body)


CLERK = Credentials("clerk", "canary-clerk-password")


@pytest.fixture(scope="module")
def clerk(cluster: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The credentials of a user who may read everything but the group "secret" and its dead letters."""
    names, _ = cluster
    settings = ClientSettings(credentials=ROOT)
    with Admin(names, settings=settings) as admin:
        for topic in ("%DLQ%open", "%DLQ%secret"):
            admin.topics.create(topic, queues=1)
        admin.users.create(CLERK.access_key, CLERK.secret_key, is_super=False)
        for resource in ("Topic:*", "Group:*", "Cluster:*"):
            admin.users.put_entry("clerk", resource, ["Get", "List"], [], is_allowed=True)
        for group in ("open", "secret"):
            admin.groups.create(GroupConfig(group))
        admin.users.put_entry("clerk", "Topic:%DLQ%secret", ["Get"], [], is_allowed=False)
        admin.users.put_entry("clerk", "Group:secret", ["Get"], [], is_allowed=False)
    signed = ProducerSettings(credentials=ROOT, send_timeout_ms=30_000)
    with Producer(names, settings=signed) as producer:
        for topic in ("%DLQ%open", "%DLQ%secret"):
            producer.send(Message(topic, b"x"))
    return tools_file(tmp_path_factory.mktemp("clerk") / "clerk.yml", CLERK)


def test_dead_letters_that_may_not_be_read_are_unknown_and_the_others_are_listed(
    cluster: tuple[str, Path], clerk: Path
) -> None:
    names, root = cluster
    whole = run("dlq", "list", "--json", nameserver=names, credentials=root)
    assert whole.returncode == 0, whole.stderr
    assert [each["letters"] for each in orjson.loads(whole.stdout)] == [1, 1]
    partly = run("dlq", "list", "--json", nameserver=names, credentials=clerk)
    assert partly.returncode == 1, partly.stderr
    readable, unread = orjson.loads(partly.stdout)
    assert (readable["group"], readable["letters"], readable["letters_unknown"]) == ("open", 1, [])  # fmt: skip
    assert (unread["group"], unread["letters"]) == ("secret", 0)
    assert unread["letters_unknown"] == [reason_of(partly)]
    shown = run("dlq", "list", nameserver=names, credentials=clerk).stdout.decode()
    assert re.search(r"^secret +unknown", shown, re.MULTILINE)


def test_topics_that_may_not_be_read_are_unknown_and_the_others_are_listed(
    cluster: tuple[str, Path], clerk: Path
) -> None:
    listed = run("topic", "list", "--json", nameserver=cluster[0], credentials=clerk)
    assert listed.returncode == 1, listed.stderr
    rows = {each["topic"]: each for each in orjson.loads(listed.stdout)}
    assert rows["%DLQ%open"]["messages"] == 1
    assert rows["%DLQ%secret"]["messages_unknown"] == [reason_of(listed)]


def test_groups_that_may_not_be_read_are_unknown_and_the_others_are_listed(
    cluster: tuple[str, Path], clerk: Path
) -> None:
    listed = run("group", "list", "--json", nameserver=cluster[0], credentials=clerk)
    assert listed.returncode == 1, listed.stderr
    rows = {each["group"]: each for each in orjson.loads(listed.stdout)}
    assert rows["open"]["members"] == 0
    assert rows["secret"]["members"] is None
    [reason] = rows["secret"]["lag_unknown"]
    assert "does not show the members of group 'secret': " in reason
    assert listed.stderr.decode() == f"error: {reason}\n"
    whole = run("group", "list", "--json", nameserver=cluster[0], credentials=cluster[1])
    assert whole.returncode == 0, whole.stderr
    assert {each["group"] for each in orjson.loads(whole.stdout)} == rows.keys()


def reason_of(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one error that a command prints, about the topic that the clerk may not read."""
    said = done.stderr.decode()
    assert said.startswith("error: %DLQ%secret cannot be read: ")
    assert said.count("\n") == 1, said
    return said.removeprefix("error: ").strip()


def test_programs_and_the_doctor_are_told_which_dead_letters_may_not_be_read(
    cluster: tuple[str, Path], clerk: Path
) -> None:
    settings = ClientSettings(credentials=CLERK)
    with Admin(cluster[0], settings=settings) as admin:
        waiting = {each.group: each for each in admin.dead_letters.waiting()}
        found = admin.health.check()
    assert {name: str(each.total) for name, each in waiting.items()} == {"open": "1", "secret": "unknown"}  # fmt: skip
    [reason] = waiting["secret"].uncounted
    assert reason.startswith("%DLQ%secret cannot be read: ")
    assert [each.subject for each in found if each.check == "letters"] == ["open"]
    unread, unreadable = [each.text for each in found if each.check == "asking"]
    assert "does not show the members of group 'secret': " in unread
    assert unreadable == reason
    assert not [
        each for each in found if each.subject == "secret" and each.check == "abandoned"
    ]


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
        credentials = tools_file(tmp_path / "tools.yml", ADMIN)
        done = run("doctor", "--json", nameserver=names.address, credentials=credentials)
        assert "require signed requests" not in done.stdout.decode()
        assert "requires signatures" not in broker.log.read_text()
    with small_cluster(tmp_path) as (names, broker):
        done = run("doctor", "--json", nameserver=names.address)
        assert "require signed requests" not in done.stdout.decode()
        assert "requires signatures" not in broker.log.read_text()
