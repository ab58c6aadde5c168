"""`cometmq acl copy`: users of one broker at another, with their passwords, and nothing that tells one."""

import json

import pytest

from cometmq import Credentials
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.accounts import CANARY, NO_SLAVES
from tests.support.auth_users import auth_settings
from tests.support.command_line import COMETMQ
from tests.support.programs import run_program

ROOT = Credentials("root", f"{CANARY}-root")
ALICE = Credentials("alice", f"{CANARY}-alice")
OK, NO_PERMISSION = 0, 16


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A nameserver and two masters with users of their own."""
    folder = tmp_path_factory.mktemp("two")
    with processes.nameserver(folder / "names") as names:
        brokers = []
        for name in ("one", "two"):
            keys = auth_settings(ROOT, ROOT, brokerName=name, **NO_SLAVES)
            brokers.append(processes.broker(folder / name, names.address, settings=keys))
        with brokers[0], brokers[1]:
            yield names, brokers


def ask(address, who, code, fields=None, body=b""):
    with Stranger(address) as peer:
        return peer.ask_as(who, code, fields, body)


def run(*words):
    signs = {"COMETMQ_ACCESS_KEY": ROOT.access_key, "COMETMQ_SECRET_KEY": ROOT.secret_key}
    return run_program(*COMETMQ, "acl", "copy", *words, env=signs, status=None)


def test_users_are_copied_with_what_they_may_do_and_no_password_is_told(two):
    names, (one, other) = two
    user = {"username": "alice", "password": ALICE.secret_key, "userType": "Normal"}
    made = ask(one.address, ROOT, 3001, {"username": "alice"}, json.dumps(user).encode())
    assert made.code == OK
    entry = {"resource": "Topic:orders", "actions": ["Get"], "decision": "Allow"}
    acl = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [entry]}]}
    given = ask(one.address, ROOT, 3006, {"subject": "User:alice"}, json.dumps(acl).encode())
    assert given.code == OK
    asked = (ALICE, 30, {"topic": "orders", "queueId": "0"})
    assert ask(other.address, *asked).code == NO_PERMISSION
    shown = run("one", "two", "--dry-run", "--json", "-n", names.address)
    assert shown.returncode == 0, shown.stderr
    assert ask(other.address, *asked).code == NO_PERMISSION
    for done in ("made", "changed"):
        copied = run("one", "two", "--user", "alice", "--json", "-n", names.address)
        assert copied.returncode == 0, copied.stderr
        [line] = json.loads(copied.stdout)
        assert line == {
            "user": "alice",
            "type": "Normal",
            "status": "enable",
            "entries": 1,
            "done": done,
        }
        assert CANARY not in copied.stdout + copied.stderr + shown.stdout
    assert ask(other.address, *asked).code != NO_PERMISSION
    assert CANARY not in one.log.read_text() + other.log.read_text()


def test_what_cannot_be_copied_says_why(two):
    names, _ = two
    nobody = run("one", "two", "--user", "nobody", "-n", names.address)
    assert nobody.returncode != 0
    assert "has no user nobody" in nobody.stderr
    nowhere = run("one", "three", "-n", names.address)
    assert nowhere.returncode != 0
    assert "three" in nowhere.stderr
