"""Auth 2.0 of programs from the command line: users and policies over the wire, kept, and never told with a password."""

import json

import pytest

from cometmq import Credentials, Message, Producer, ProducerSettings
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CometError
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.accounts import ADMIN, CANARY, NO_SLAVES, account, write_accounts
from tests.support.auth_users import ROOT, auth_settings
from tests.support.programs import small_cluster

ALICE = Credentials("alice", f"{CANARY}-alice")
BOSS = Credentials("boss", f"{CANARY}-boss")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Both ask: the nameserver knows the broker by its own users."""
    folder = tmp_path_factory.mktemp("auth")
    write_users(folder / "users" / "auth.json")
    more = {
        "authConfigPath": folder / "users",
        "clusterName": "DefaultCluster",
        **auth_settings(),
    }
    of_broker = auth_settings(**NO_SLAVES)
    with small_cluster(folder, more, **of_broker) as (names, broker):
        yield names, broker, folder


@pytest.fixture
def ask(cluster):
    _, broker, _ = cluster
    with Stranger(broker.address) as asked:

        def ask(who, code, body=None, **fields):
            content = b"" if body is None else json.dumps(body).encode()
            return asked.ask_as(who, code, fields, content)

        yield ask


def user(credentials, **more):
    return {"username": credentials.access_key, "password": credentials.secret_key, **more}


def acl(*entries, policy="Custom"):
    return {"policies": [{"policyType": policy, "entries": list(entries)}]}


def allow(resource, *actions):
    return {"resource": resource, "actions": list(actions), "decision": "Allow"}


def write_users(path):
    """Two users of the nameserver, who may administrate one cluster each."""
    clusters = {"boss": "Cluster:DefaultCluster", "stranger": "Cluster:Another"}
    known = [
        {"username": name, "password": f"{CANARY}-{name}", "userType": "Normal", "userStatus": "enable"} for name in clusters
    ]  # fmt: skip
    acls = [
        {"subject": f"User:{name}", **acl(allow(resource, "Get", "Update"))}
        for name, resource in clusters.items()
    ]
    path.parent.mkdir(mode=0o700)
    path.write_text(json.dumps({"version": 1, "users": known, "acls": acls}))
    path.chmod(0o600)


OK, NO = ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION


def test_a_policy_for_a_cluster_applies_at_a_nameserver_of_that_cluster(cluster):
    names, _, _ = cluster
    with Stranger(names.address) as asked:
        for name, expected in (("boss", OK), ("stranger", NO)):
            who = Credentials(name, f"{CANARY}-{name}")
            for code in (106, 319):
                assert asked.ask_as(who, code).code == expected
    [said] = [
        line
        for line in names.log.read_text().splitlines()
        if "Policies with the resources" in line
    ]
    assert "Cluster:Another have no effect at this nameserver" in said
    assert "set clusterName" in said


def test_users_and_policies_are_made_asked_for_and_in_force(ask):
    assert ask(ROOT, 3001, user(ALICE), username="alice").code == OK
    assert ask(ALICE, 30, topic="orders", queueId="0").code == NO
    assert ask(ROOT, 3006, acl(allow("Topic:orders", "Get")), subject="User:alice").code == OK
    assert ask(ALICE, 30, topic="orders", queueId="0").code != NO
    assert ask(ALICE, 30, topic="other", queueId="0").code == NO
    assert ask(ALICE, 3004, username="root").code == NO
    shown = json.loads(ask(ROOT, 3004, username="alice").body)
    assert shown == {
        "password": "******",
        "userStatus": "enable",
        "userType": "Normal",
        "username": "alice",
    }
    listed = ask(ROOT, 3005, filter="ali")
    assert [each["username"] for each in json.loads(listed.body)] == ["alice"]
    assert ask(ROOT, 3005, filter="nobody").body == b""
    policies = json.loads(ask(ROOT, 3009, subject="User:alice").body)["policies"]
    assert policies[0]["entries"][0]["resource"] == "Topic:orders"
    assert len(json.loads(ask(ROOT, 3010, resourceFilter="orders").body)) == 1
    more = acl(allow("Topic:orders*", "Pub"))
    assert ask(ROOT, 3007, more, subject="User:alice").code == OK
    assert (
        ask(ROOT, 3008, subject="User:alice", policyType="Custom", resource="Topic:orders").code
        == OK
    )
    assert ask(ALICE, 30, topic="orders", queueId="0").code == NO
    assert ask(ROOT, 3002, {"userStatus": "disable"}, username="alice").code == OK
    assert "not that of a known user" in ask(ALICE, 34).remark
    assert ask(ROOT, 3003, username="alice").code == OK
    gone = ask(ROOT, 3004, username="alice")
    assert (gone.code, gone.body) == (OK, b"")
    assert ask(ROOT, 3009, subject="User:alice").code == NO


def test_what_cannot_be_is_refused_with_its_field(ask):
    refused = [
        ask(ROOT, 3001, user(ALICE), username=" "),
        ask(ROOT, 3001, user(ALICE, userType="Root"), username="new"),
        ask(ROOT, 3001, {"password": [CANARY]}, username="new"),
        ask(ROOT, 3001, {"password": "******"}, username="new"),
        ask(ROOT, 3001, [CANARY], username="new"),
        ask(ROOT, 3006, acl({"actions": ["Pub"], "decision": "Allow"}), subject="User:root"),
        ask(ROOT, 3006, acl(allow("Topic:a*b", "Pub")), subject="User:root"),
        ask(ROOT, 3006, acl(allow("Topic:a", "Pub")), subject="root"),
    ]
    for answer in refused:
        assert answer.code == ResponseCode.INVALID_PARAMETER, answer
        assert CANARY not in answer.remark
    assert ask(ROOT, 3006, acl(allow("Topic:a", "Pub")), subject="User:none").code == NO
    assert ask(ROOT, 3008, subject="User:root", resource="Topic:none").code == NO


def test_a_super_user_is_changed_by_super_users_alone_and_one_stays(ask):
    assert ask(ROOT, 3001, user(BOSS), username="boss").code == OK
    rights = acl(allow("Cluster:*", "Update", "Get"))
    assert ask(ROOT, 3006, rights, subject="User:boss").code == OK
    for answer in (
        ask(BOSS, 3001, {"password": "p", "userType": "Super"}, username="mine"),
        ask(BOSS, 3002, {"password": "p"}, username="root"),
        ask(BOSS, 3002, {"userType": "Super"}, username="boss"),
        ask(BOSS, 3003, username="root"),
    ):
        assert (answer.code, "super user" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
    assert ask(BOSS, 3001, {"password": "p"}, username="plain").code == OK
    # Policies are no way round: what changes a broker's settings is asked about, too.
    assert ask(BOSS, 25).code == OK
    assert ask(ROOT, 3008, subject="User:boss").code == OK
    assert ask(BOSS, 25).code == NO


def test_a_broker_that_comes_back_knows_its_users_and_nothing_told_a_password(cluster, ask):
    names, broker, folder = cluster
    assert ask(ROOT, 3001, user(ALICE), username="kept").code == OK
    broker.stop()
    broker.start()
    with Stranger(broker.address) as asked:
        assert asked.ask_as(ROOT, 3004, {"username": "kept"}).code == OK
        assert CANARY.encode() not in asked.ask_as(ROOT, 26).body
    for program in (names, broker):
        assert CANARY not in program.log.read_text()
    saved = folder / "broker" / "store" / "config" / "auth.json"
    assert saved.stat().st_mode & 0o777 == 0o600
    # The broker is in the nameserver's routes: it has signed there.
    with Stranger(names.address) as asked:
        found = asked.ask_as(ROOT, 106)
    assert broker.address.encode() in found.body


def test_accounts_of_acl_1_become_users_once(tmp_path):
    write_accounts(
        tmp_path / "broker" / "plain_acl.yml",
        account(ADMIN, admin=True),
        account(
            Credentials("sender-one", f"{CANARY}-one"), topicPerms=["mine=PUB|SUB", "theirs=DENY"],
            defaultTopicPerm="SUB",
        ),
    )  # fmt: skip
    settings = {
        "authenticationEnabled": "true", "authorizationEnabled": "true", "migrateAuthFromV1Enabled": "true",
    }  # fmt: skip
    with processes.broker(tmp_path / "broker", "", settings=settings) as broker:
        with Stranger(broker.address) as asked:
            found = asked.ask_as(ADMIN, 3009, {"subject": "User:sender-one"})
        policies = {each["policyType"]: each for each in json.loads(found.body)["policies"]}
        custom = {each["resource"]: each for each in policies["Custom"]["entries"]}
        assert custom["Topic:mine"]["actions"] == ["Pub", "Sub"]
        assert custom["Topic:theirs"]["decision"] == "Deny"
        default = {
            each["resource"]: each["decision"] for each in policies["Default"]["entries"]
        }
        assert default == {"Topic:*": "Allow", "Group:*": "Deny"}


def test_a_sender_needs_his_right(cluster, ask):
    names, _, _ = cluster
    assert ask(ROOT, 17, topic="sent", readQueueNums="1", writeQueueNums="1", perm="6", defaultTopic="TBW102",
               topicFilterType="SINGLE_TAG", topicSysFlag="0", order="false").code == OK  # fmt: skip
    settings = ProducerSettings(credentials=ROOT)
    with Producer(names.address, group="g", settings=settings) as producer:
        assert producer.send(Message("sent", b"x")).queue_offset == 0
    other = ProducerSettings(credentials=Credentials("root", "wrong-one"), retries=0)
    with (
        pytest.raises(CometError),
        Producer(names.address, group="g", settings=other) as producer,
    ):
        producer.send(Message("sent", b"x"))
