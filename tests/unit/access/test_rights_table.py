"""Rights: each code of broker and nameserver, asked by each kind of stranger and user; nothing is wrongly accepted."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from cometmq.access.accounts import PERMISSIONS, Account, FolderAccounts
from cometmq.access.address_pattern import AddressPattern
from cometmq.access.gate import AccessGate
from cometmq.broker import requests as broker
from cometmq.codec.remoting import Command
from cometmq.codec.signer import Signer
from cometmq.model.codes import ResponseCode, request_name
from cometmq.model.credentials import Credentials
from cometmq.model.errors import RequestError
from cometmq.model.rights import ANY_NAME, Action, Resource, Right
from cometmq.nameserver import requests as nameserver
from cometmq.net.answer import Answer
from cometmq.net.requests import RequestTable
from tests.fuzz.fitting import BROKER, NAMESERVER

TABLES = {"broker": (broker.RULES, BROKER), "nameserver": (nameserver.RULES, NAMESERVER)}
ROWS = [
    pytest.param(rule, *fits[rule.code], id=f"{name}-{request_name(rule.code)}")
    for name, (rules, fits) in TABLES.items()
    for rule in rules
]
CANARY = "canary-secret-7f3a"
NEAR, FAR = "10.0.0.7", "192.168.0.9"

# What only an administrator's account may do, whatever topics and groups it has.
ADMINS_AT_BROKER = {
    17, 18, 21, 25, 26, 28, 43, 45, 50, 51, 52, 53, 60, 61, 200, 201, 204, 207, 215, 222, 225, 305, 306, 309, 314, 315,
    316, 317, 323, 328, 329, 353, 355, 401, 402, 513, 902, 903, 905, 906, 907, 908, 1007, 1008, 2001, 2002, 2003, 2004, 30002, 30010, 30011, 30012, 200056, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010,
}  # fmt: skip
ADMINS_AT_NAMESERVER = {
    100, 102, 103, 104, 205, 216, 217, 224, 318, 319, 322, 327, 901, 904,
}  # fmt: skip
# What each account may do, since it touches nothing of its own.
EACH_ACCOUNTS = {101, 106, 206, 219, 304, 311, 312, 313, 30003}


class Asking:
    """A peer as a gate and a handler see one."""

    def __init__(self, ip=NEAR, *, is_on_own_machine=True):
        self.ip, self.address = ip, f"{ip}:1"
        self.is_on_own_machine = is_on_own_machine
        self.is_encrypted = False
        self.signed_by: Any = None
        self.has_signed, self.network = False, ip
        self.answers = []

    def answer(self, _command, answer):
        self.answers.append(answer)


class Users:
    def __init__(self, *accounts, **more):
        self.current = FolderAccounts({each.name: each for each in accounts}, **more)


class Batch:
    def __init__(self):
        self.seen = []

    def handle(self, reads):
        self.seen += [command for _, commands in reads for command in commands]

    def written(self):
        pass


def request(rule, kinds, form):
    """A request that names a topic or group in each place where one can stand."""
    fields = {
        name: f"{kind}-{name}" if kind in {"topic", "group"} else "1"
        for name, kind in kinds.items()
    }
    body = b"" if form is None or isinstance(form, bytes) else json.dumps(form).encode()
    return Command(int(rule.code), fields=fields, body=body)


def passes(rule, command, users, peer=None):
    """Whether a request reaches its handler, through the table as a server has it."""
    batch, seen = Batch(), []

    def handle(given, _peer):
        seen.append(given)
        return Answer()

    answer: Any = batch if rule.is_batch else handle
    peer = peer or Asking()
    table = RequestTable([rule], [{rule.code: answer}], AccessGate(users))
    before = len(peer.answers)
    if rule.is_batch:
        table.batches[int(rule.code)].handle([(peer, [tuple(command)])])
    else:
        try:
            table.handlers[int(rule.code)](command, peer)
        except RequestError as error:
            peer.answers.append(error)
    refusals = peer.answers[before:]
    for refusal in refusals:
        assert refusal.code == ResponseCode.NO_PERMISSION
        assert CANARY not in refusal.remark
    did_pass = bool(batch.seen or seen)
    assert did_pass != bool(refusals)
    return did_pass


def signed(command, name="somebody", secret=CANARY):
    return Signer(Credentials(name, secret)).signed(command)


def account(name="somebody", **more):
    return Account(name, CANARY.encode(), **more)


def granted(rule, command):
    """An account that has all topics and groups of a request, and no other."""
    touched = rule.accesses(command.fields, command.body)
    both = PERMISSIONS["PUB|SUB"]
    return account(
        topics={
            a.name: both for a in touched if a.resource is Resource.TOPIC and a.name != ANY_NAME
        },
        groups={a.name: both for a in touched if a.resource is Resource.GROUP},
    )


@pytest.mark.parametrize(("rule", "kinds", "form"), ROWS)
def test_no_stranger_passes(rule, kinds, form, caplog):
    """And an unknown user, a disabled one and a wrong signature hear the same."""
    command = request(rule, kinds, form)
    known = Users(account(is_super=True), account("disabled", is_super=True, is_enabled=False))
    heard = set()
    with caplog.at_level(logging.DEBUG):
        assert not passes(rule, command, known)
        for stranger in (
            signed(command, "unknown"),
            signed(command, "disabled"),
            signed(command, secret="another-secret"),
            signed(command)._replace(body=command.body + b"x"),
            signed(command)._replace(fields={**signed(command).fields, "more": "zz"}),
            command._replace(fields={**command.fields, "AccessKey": "somebody"}),
            command._replace(
                fields={**command.fields, "AccessKey": "somebody", "Signature": 1}
            ),
        ):
            peer = Asking()
            assert not passes(rule, stranger, known, peer)
            heard.add(peer.answers[-1].remark)
    assert len(heard) == 1
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 8
    assert not [
        line for line in lines if CANARY in line or "unknown" in line or "disabled" in line
    ]


@pytest.mark.parametrize(("rule", "kinds", "form"), ROWS)
def test_a_user_passes_with_his_rights_and_not_without(rule, kinds, form):
    command = request(rule, kinds, form)
    own_server = nameserver.RULES if rule in nameserver.RULES else broker.RULES
    admins = ADMINS_AT_NAMESERVER if own_server is nameserver.RULES else ADMINS_AT_BROKER
    is_free = rule.code in EACH_ACCOUNTS and own_server is nameserver.RULES
    assert passes(rule, signed(command), Users(account(is_super=True)))
    assert passes(rule, signed(command), Users(account())) is is_free
    with_rights = passes(rule, signed(command), Users(granted(rule, command)))
    assert with_rights is (rule.code not in admins)
    denied = account(default_topic=PERMISSIONS["DENY"], default_group=PERMISSIONS["DENY"])
    assert passes(rule, signed(command), Users(denied)) is is_free


@pytest.mark.parametrize(("rule", "kinds", "form"), ROWS)
def test_a_white_address_is_no_signature_unless_it_is_said(rule, kinds, form):
    command = request(rule, kinds, form)
    unsigned = command._replace(fields={**command.fields, "AccessKey": "somebody"})
    white = AddressPattern("10.0.*.*")
    own, everywhere = account(is_super=True, white=white), {"white": [white]}
    assert not passes(rule, unsigned, Users(own))
    assert not passes(rule, command, Users(own, **everywhere))
    assert passes(rule, unsigned, Users(own, is_white_unsigned=True))
    assert passes(rule, command, Users(own, **everywhere, is_white_unsigned=True))
    for users in (
        Users(own, is_white_unsigned=True),
        Users(own, **everywhere, is_white_unsigned=True),
    ):
        assert not passes(rule, unsigned, users, Asking(FAR))


@pytest.mark.parametrize(("rule", "kinds", "form"), ROWS)
def test_what_changes_from_another_machine_is_not_taken_in_the_clear(rule, kinds, form):
    """Whoever may: a signature that was heard can be sent again."""
    command, users = signed(request(rule, kinds, form)), Users(account(is_super=True))
    touched = rule.accesses(command.fields, command.body)
    changes = rule.right is Right.ADMINISTRATOR and any(
        access.actions & {Action.CREATE, Action.UPDATE, Action.DELETE} for access in touched
    )
    far = Asking(FAR, is_on_own_machine=False)
    assert passes(rule, command, users, far) is not changes
    far.is_encrypted = True
    assert passes(rule, command, users, far)


def test_of_a_batch_only_what_may_pass_passes():
    rule = next(rule for rule in broker.RULES if rule.code == 320)
    may = account(topics={"mine": PERMISSIONS["PUB"], "read": PERMISSIONS["SUB"]})
    batch, peer = Batch(), Asking()
    sender: Any = peer
    table = RequestTable([rule], [{320: batch}], AccessGate(Users(may)))
    sent = [
        signed(Command(320, fields={"b": topic}, opaque=number))
        for number, topic in enumerate(["mine", "read", "mine", "other", "%RETRY%mine"])
    ]
    table.batches[320].handle([(sender, [tuple(each) for each in sent])])
    assert [command[2] for command in batch.seen] == [0, 2]
    assert [answer.code for answer in peer.answers] == [ResponseCode.NO_PERMISSION] * 3
    assert "Pub on Topic read" in peer.answers[0].remark


def test_the_unique_key_query_of_old_clients_is_added_behind_the_signature():
    command = Command(12, fields={"topic": "t", "key": "k"})
    old = signed(command)
    old = old._replace(fields={**old.fields, "_UNIQUE_KEY_QUERY": "true"})
    rule = next(rule for rule in broker.RULES if rule.code == 12)
    users = Users(account(is_super=True))
    assert passes(rule, old, users)
    new = signed(command._replace(fields={**command.fields, "_UNIQUE_KEY_QUERY": "true"}))
    assert passes(rule, new, users)


@pytest.mark.parametrize(("rule", "kinds", "form"), ROWS)
def test_a_name_without_quotes_needs_the_same_right_as_its_text(rule, kinds, form):
    """Some C++ clients write numbers so: who checks a request reads it as its handler does."""
    named = [name for name, kind in kinds.items() if kind in {"topic", "group"}]
    given = request(rule, kinds, form)
    for value, text in ((0, "0"), (1001, "1001"), (False, "false"), (True, "true")):
        plain = given._replace(fields={**given.fields, **dict.fromkeys(named, value)})
        quoted = given._replace(fields={**given.fields, **dict.fromkeys(named, text)})
        touched = [list(rule.accesses(each.fields, each.body)) for each in (plain, quoted)]
        assert touched[0] == touched[1]
        denied = account(
            default_topic=PERMISSIONS["PUB|SUB"],
            default_group=PERMISSIONS["PUB|SUB"],
            topics={text: PERMISSIONS["DENY"]},
            groups={text: PERMISSIONS["DENY"]},
        )
        for users in (Users(denied), Users(account(is_super=True))):
            assert passes(rule, signed(plain), users) is passes(rule, signed(quoted), users)
