"""Rights of Auth 2.0: policies, and each code for each kind of user."""

from __future__ import annotations

import json
import stat
from typing import Any

import pytest

from cometmq.access.auth_users import AuthFile, AuthUser, AuthUsers
from cometmq.access.policies import read_policies
from cometmq.broker import requests as broker
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, SettingsError
from cometmq.model.rights import ANY_NAME, Access, Action, Resource, Right
from cometmq.nameserver import requests as nameserver
from tests.unit.access.test_rights_table import (
    CANARY,
    FAR,
    NEAR,
    ROWS,
    Asking,
    passes,
    request,
    signed,
)

CLUSTER = "DefaultCluster"
BROKER_ROWS: list[Any] = [param for param in ROWS if param.values[0] in broker.RULES]


def entry(resource, *actions, decision="Allow", sources=()):
    return {
        "resource": resource,
        "actions": list(actions),
        "sourceIps": list(sources),
        "decision": decision,
    }


def policies(*custom, default=()):
    return read_policies(
        [
            {"policyType": "Custom", "entries": list(custom)},
            {"policyType": "Default", "entries": list(default)},
        ]
    )


def users(tmp_path, **more):
    return AuthFile(str(tmp_path / "auth.json"), cluster=CLUSTER, is_authorized=True, **more)


def with_user(tmp_path, rights=None, **values):
    found = users(tmp_path)
    found.put_user("somebody", {"password": CANARY, **values}, is_new=True)
    if rights is not None:
        found.put_policies("somebody", rights)
    return found


def granting(rule, command, sources=()):
    """Policies that allow all that a request does, and nothing else."""
    entries = []
    for kind, name, actions, _ in rule.accesses(command.fields, command.body):
        named = CLUSTER if kind is Resource.CLUSTER else name
        entries.append(
            entry(f"{kind.value}:{named}", min(actions, key=str).value, sources=sources)
        )
    return policies(*{each["resource"] + each["actions"][0]: each for each in entries}.values())


class Known:
    """Users without a file."""

    def __init__(self, rights=None, **values):
        own = values | {"policies": rights} if rights is not None else values
        user = AuthUser("somebody", CANARY.encode(), cluster=CLUSTER, **own)
        self.current = AuthUsers({user.name: user})


@pytest.mark.parametrize(("rule", "kinds", "form"), ROWS)
def test_each_code_for_each_kind_of_user(rule, kinds, form):
    command = request(rule, kinds, form)
    rights = granting(rule, command)
    mine = signed(command)
    assert passes(rule, mine, Known(rights))
    assert passes(rule, mine, Known(is_super=True))
    assert not passes(rule, mine, Known())
    for strange in (
        command,
        signed(command, "unknown"),
        signed(command, secret="another-secret"),
    ):
        assert not passes(rule, strange, Known(rights))
    assert not passes(rule, mine, Known(rights, is_enabled=False))
    near = Known(granting(rule, command, [f"{NEAR}/32"]))
    assert passes(rule, mine, near)
    assert not passes(rule, mine, near, Asking(FAR))


@pytest.mark.parametrize(("rule", "kinds", "form"), ROWS)
def test_without_authorization_an_administrators_request_is_his_alone(rule, kinds, form):
    mine = signed(request(rule, kinds, form))
    is_admins = rule.right in {Right.ADMINISTRATOR, Right.BROKER}
    assert passes(rule, mine, Known(is_authorized=False)) is not is_admins


def test_white_lists_are_of_codes_and_open_no_administration_to_others(tmp_path):
    found = users(tmp_path, unasked=frozenset({310, 25}), unauthorized=frozenset({11}))
    found.put_user("somebody", {"password": CANARY}, is_new=True)
    rows = {param.values[0].code: param.values for param in BROKER_ROWS}
    send, change, pull, other = (rows[code] for code in (310, 25, 11, 12))
    assert passes(send[0], request(*send), found)
    assert passes(change[0], request(*change), found)
    assert not passes(change[0], request(*change), found, Asking(FAR, is_on_own_machine=False))
    assert not passes(pull[0], request(*pull), found)
    assert passes(pull[0], signed(request(*pull)), found)
    assert not passes(other[0], signed(request(*other)), found)


PUB = frozenset({Action.PUB})
EITHER = frozenset({Action.SUB, Action.GET})


def topic(name, actions=PUB):
    return Access(Resource.TOPIC, name, actions)


def allow(resource):
    return entry(resource, "Pub")


def deny(resource):
    return entry(resource, "Pub", decision="Deny")


@pytest.mark.parametrize(
    ("entries", "access", "is_allowed"),
    [
        # The most exact counts.
        ([allow("Topic:*"), deny("Topic:a")], topic("a"), False),
        ([deny("Topic:*"), allow("Topic:a")], topic("a"), True),
        ([deny("Topic:a*"), allow("Topic:ab*")], topic("abc"), True),
        ([allow("Topic:a*"), deny("Topic:ab*")], topic("abc"), False),
        ([deny("Topic:ab*"), allow("Topic:abc")], topic("abc"), True),
        ([entry("*", "All"), deny("Topic:*")], topic("a"), False),
        # Of one level what denies.
        ([allow("Topic:a"), deny("topic:a")], topic("a"), False),
        ([deny("topic:a"), allow("Topic:a")], topic("a"), False),
        # Actions: any of those that are asked for.
        ([entry("Topic:a", "Get")], topic("a", EITHER), True),
        ([allow("Topic:a")], topic("a", EITHER), False),
        ([entry("Topic:a", "All")], topic("a", EITHER), True),
        # Kinds and names.
        ([entry("Group:a", "All")], topic("a"), False),
        ([allow("Topic:a")], topic("ab"), False),
        ([entry("*", "All")], topic("a"), True),
        ([], topic("a"), False),
        # All of a kind: what allows all, and what denies one.
        ([entry("Topic:*", "List")], topic(ANY_NAME, frozenset({Action.LIST})), True),
        ([entry("Topic:a*", "List")], topic(ANY_NAME, frozenset({Action.LIST})), False),
        (
            [entry("Topic:*", "List"), entry("Topic:a", "List", decision="Deny")],
            topic(ANY_NAME, frozenset({Action.LIST})),
            False,
        ),
    ],
)
def test_of_entries_that_fit_the_most_exact_counts_and_of_two_the_one_that_denies(
    entries, access, is_allowed
):
    assert policies(*entries).may(access, NEAR) is is_allowed


def test_actions_that_are_repeated_are_kept_once():
    """Or one request could let a user outgrow a record of a group's log."""
    [policy] = policies(entry("Topic:a", *["Pub", "sub", "PUB"] * 50_000)).to_json()
    assert policy["entries"][0]["actions"] == ["Pub", "Sub"]


def test_the_default_policy_is_asked_where_nothing_of_the_custom_one_fits():
    both = policies(deny("Topic:a"), default=[entry("Topic:*", "Pub")])
    assert not both.may(topic("a"), NEAR)
    assert both.may(topic("b"), NEAR)


@pytest.mark.parametrize("ip", ["10.0.0.7", "::1"])
def test_an_entry_counts_from_its_addresses_alone(ip):
    far = policies(entry("Topic:a", "Pub", sources=["192.168.0.0/16", "fe80::/10"]))
    assert not far.may(topic("a"), ip)
    assert far.may(topic("a"), "192.168.9.9")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "policies: it must be a list"),
        ([1], "each must be a JSON object"),
        ([{"entries": [{"actions": ["Pub"], "decision": "Allow"}]}], "resource: it must be"),
        ([{"entries": [entry("Topic:", "Pub")]}], "resource: it must be"),
        ([{"entries": [entry("Topic:a*b", "Pub")]}], "resource: it must be"),
        ([{"entries": [entry("Topik:a", "Pub")]}], "resource: it must be"),
        ([{"entries": [entry("Topic:a")]}], "actions: the list is empty"),
        ([{"entries": [entry("Topic:a", "Publish")]}], "actions: it must be one of All"),
        ([{"entries": [entry("Topic:a", "Pub", decision="Maybe")]}], "decision: it must be"),
        ([{"entries": [entry("Topic:a", "Pub", sources=["10.0.0"])]}], "sourceIps: each"),
        (
            [{"entries": [entry("Topic:a", "Pub", sources=["fe80::1%" + "z" * 60])]}],
            "sourceIps: each",
        ),
        (
            [{"entries": [entry("Topic:a", "Pub", sources=["10.0.0.1"] * 101)]}],
            "at most 100 are allowed",
        ),
        ([{"policyType": "Mine", "entries": []}], "policyType: it must be"),
        (
            [{"entries": [entry(f"Topic:{n}", "Pub") for n in range(1001)]}],
            "the limit is 1000",
        ),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_by_its_field(value, words):
    with pytest.raises(SettingsError, match=words):
        read_policies(value)


def test_the_file_is_whole_its_owners_alone_and_read_again(tmp_path):
    found = with_user(tmp_path, policies(entry("Topic:a", "Pub")), userType="Normal")
    path = tmp_path / "auth.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = users(tmp_path)
    assert again.current.users == found.current.users
    assert CANARY not in repr(again.current.find("somebody"))
    found.delete_policies("somebody", "Custom", "Topic:a")
    found.put_user("somebody", {"userStatus": "disable"}, is_new=False)
    assert not users(tmp_path).current.find("somebody").is_enabled
    found.delete_user("somebody")
    assert users(tmp_path).current.users == {}
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        users(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 2, "users": [], "acls": []}', '{"version": 1}', "[" * 100_000],
)
def test_a_file_that_is_none_is_refused_and_left_as_it_is(tmp_path, text):
    path = tmp_path / "auth.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SettingsError, match=r"auth\.json"):
        users(tmp_path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("", {"password": "p"}),
        ("a b", {"password": "p"}),
        ("../x", {"password": ["p"]}),
        ("x" * 129, {"password": "p"}),
        ("x", {}),
        ("x", {"password": {"a": 1}}),
        ("x", {"password": "p" * 257}),
        ("x", {"password": "p\n"}),
        ("x", {"password": "p", "userType": "Root"}),
        ("x", {"password": "p", "userStatus": "maybe"}),
        ("x", []),
    ],
)
def test_a_user_that_cannot_be_meant_is_refused(tmp_path, name, values):
    found = users(tmp_path)
    with pytest.raises(SettingsError):
        found.put_user(name, values, is_new=True)
    assert not (tmp_path / "auth.json").exists()


def test_who_is_there_is_not_made_again_and_who_is_not_is_not_changed(tmp_path):
    found = with_user(tmp_path)
    with pytest.raises(RequestError, match="existed"):
        found.put_user("somebody", {"password": "p"}, is_new=True)
    for change in (
        lambda: found.put_user("nobody", {"password": "p"}, is_new=False),
        lambda: found.put_policies("nobody", policies()),
        lambda: found.delete_policies("nobody", "Custom", None),
    ):
        with pytest.raises(RequestError, match="not exist") as caught:
            change()
        assert caught.value.code == ResponseCode.NO_PERMISSION
    found.delete_user("nobody")  # Nothing, as in RocketMQ.


def test_a_change_counts_for_what_was_decided_before(tmp_path):
    rule, kinds, form = next(
        param.values for param in BROKER_ROWS if param.values[0].code == 310
    )
    mine = signed(request(rule, kinds, form))
    found = with_user(tmp_path, policies(entry("Topic:topic-b", "Pub")))
    assert passes(rule, mine, found)
    found.put_policies("somebody", policies(deny("Topic:topic-b")))
    assert not passes(rule, mine, found)
    saved = json.loads((tmp_path / "auth.json").read_text())
    assert saved["acls"][0]["policies"][0]["entries"][0]["decision"] == "Deny"


def test_both_servers_have_rows_here():
    assert {p.values[0] for p in ROWS} == {*broker.RULES, *nameserver.RULES}


def test_a_decision_about_a_name_of_any_length_was_remembered():
    somebody = AuthUser("somebody", CANARY.encode(), policies=policies(entry("Topic:*", "Pub")))
    for number in range(20):
        access = Access(Resource.TOPIC, f"{number}" + "t" * 60_000, frozenset({Action.PUB}))
        assert somebody.may(access, Right.WRITER, NEAR)
    assert not somebody.decided


def test_a_named_super_user_who_was_disabled_stopped_the_start(tmp_path):
    found = users(tmp_path)
    found.ensure_super("root", CANARY)
    found.ensure_super("other", CANARY)
    found.put_user("root", {"userStatus": "disable"}, is_new=False)
    again = users(tmp_path)
    again.ensure_super("root", CANARY)
    root = again.current.find("root")
    assert root is not None
    assert (root.is_enabled, root.is_super) == (True, True)


@pytest.mark.parametrize("values", [{"userStatus": "disable"}, {"userType": "Normal"}, None])
def test_the_last_super_user_could_be_disabled_or_made_normal(tmp_path, values):
    found = users(tmp_path)
    found.ensure_super("root", CANARY)
    found.put_user("alice", {"password": CANARY}, is_new=True)
    found.put_user(
        "off", {"password": CANARY, "userType": "Super", "userStatus": "disable"}, is_new=True
    )

    def change():
        if values is None:
            found.delete_user("root")
        else:
            found.put_user("root", values, is_new=False)

    with pytest.raises(RequestError, match="last Super user"):
        change()
    root = users(tmp_path).current.find("root")
    assert root is not None
    assert (root.is_enabled, root.is_super) == (True, True)
