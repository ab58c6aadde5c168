"""The audit log: each change by an administrator, and each refusal, on one line, without secrets."""

from __future__ import annotations

import contextlib
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from cometmq.broker import requests as broker
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode, request_name
from cometmq.model.errors import RequestError
from cometmq.model.rights import EVERYBODY, Action, Right
from cometmq.model.settings import secret_names
from cometmq.nameserver import requests as nameserver
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.answer import Answer
from cometmq.net.audit import described
from cometmq.net.requests import (
    GateRefusal,
    OwnMachineGate,
    RequestRule,
    RequestTable,
    WithAsker,
    cluster,
    topic,
)
from cometmq.process.audit_log import WHAT_MAX
from cometmq.process.log_file import AUDIT, JsonLineFormatter
from cometmq.process.program_log import OneLineFormatter

CANARY = "canary-secret-7f3a"
CHANGE = RequestRule(
    RequestCode.UPDATE_AND_CREATE_TOPIC, Right.ADMINISTRATOR, (topic("topic", Action.CREATE),)
)
LOOK = RequestRule(RequestCode.GET_BROKER_CONFIG, Right.ADMINISTRATOR, (cluster(Action.GET),))
SEND = RequestRule(RequestCode.SEND_MESSAGE, Right.WRITER, (topic("topic", Action.PUB),))
PEER: Any = SimpleNamespace(address="10.0.0.7:4711", is_on_own_machine=True)
FAR: Any = SimpleNamespace(address="192.168.0.9:4711", is_on_own_machine=False)
HERE_ONLY = OwnMachineGate(lambda *_: "only from this machine")


class Signed:
    """A gate that knows one user."""

    def is_asked(self, _rule):
        return True

    def check(self, _rule, command, _peer):
        if command[6].get("AccessKey") != "admin":
            raise GateRefusal("who is that?", why="unknown")
        return SimpleNamespace(name="admin")


@pytest.fixture
def audit(caplog):
    """What the audit log has, as a program writes it."""
    caplog.set_level(logging.INFO, AUDIT)

    def lines(formatter=OneLineFormatter("%(levelname)s %(message)s")):  # noqa: B008
        return [formatter.format(each) for each in caplog.records if each.name == AUDIT]

    return lines


def call(handler, rule=CHANGE, *, gate=HERE_ONLY, peer=PEER, body=b"", **fields):
    table = RequestTable([rule], [{rule.code: handler}], gate)
    return table.handlers[rule.code](Command(rule.code, fields=fields, body=body), peer)


def test_a_change_is_one_line(audit):
    call(lambda *_: Answer(fields={"count": "3"}), topic="orders", perm="6")
    assert audit() == [
        "INFO done UPDATE_AND_CREATE_TOPIC of an unauthenticated user from 10.0.0.7:4711 (topic=orders, perm=6): count=3"
    ]


def test_who_signed_is_named_and_the_signature_is_not(audit):
    seen = []

    def answer(_command, _peer, asker):
        seen.append(asker.name)
        return Answer()

    call(
        WithAsker(answer),
        gate=Signed(), topic="orders", AccessKey="admin", Signature=CANARY, SecurityToken=CANARY,
    )  # fmt: skip
    assert seen == ["admin"]
    assert audit() == [
        "INFO done UPDATE_AND_CREATE_TOPIC of user admin from 10.0.0.7:4711 (topic=orders)"
    ]


def fail(*_):
    raise RequestError(ResponseCode.SYSTEM_ERROR, "no such topic")


def break_down(*_):
    raise ZeroDivisionError(CANARY)


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (fail, "failed UPDATE_AND_CREATE_TOPIC of an unauthenticated user from 10.0.0.7:4711 (topic=t): SYSTEM_ERROR: no such topic"),
        (break_down, "failed UPDATE_AND_CREATE_TOPIC of an unauthenticated user from 10.0.0.7:4711 (topic=t): SYSTEM_ERROR: an internal error (ZeroDivisionError)"),
        (lambda *_: Answer(ResponseCode.NO_PERMISSION, "not this key"), "refused UPDATE_AND_CREATE_TOPIC of an unauthenticated user from 10.0.0.7:4711 (topic=t): NO_PERMISSION: not this key"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_late", [False, True])
def test_what_failed_is_a_warning_with_its_reason(audit, handler, said, is_late):
    def later(command, peer):
        yield lambda _: None
        return handler(command, peer)

    def ask():
        outcome = call(later if is_late else handler, topic="t")
        if is_late:
            next(outcome)
            assert not audit(), "it has not ended"
            outcome.send(None)

    with contextlib.suppress(RequestError, ZeroDivisionError, StopIteration):
        ask()
    assert audit() == [f"WARNING {said}"]


def test_a_change_that_the_end_of_the_server_cuts_off_is_told(audit):
    def endless(*_):
        yield lambda _: None
        return Answer()

    steps = call(endless, topic="t")
    next(steps)
    steps.close()
    [line] = audit()
    assert line.endswith(
        "SYSTEM_ERROR: the server stopped, or changed its role, before it was done"
    )


@pytest.mark.parametrize(
    ("rule", "gate", "peer", "said"),
    [
        (CHANGE, HERE_ONLY, FAR, "refused UPDATE_AND_CREATE_TOPIC of an unauthenticated user from 192.168.0.9:4711 (topic=t): only from this machine"),
        (LOOK, HERE_ONLY, FAR, "refused GET_BROKER_CONFIG of an unauthenticated user from 192.168.0.9:4711 (topic=t): only from this machine"),
        (SEND, Signed(), PEER, "refused SEND_MESSAGE of an unauthenticated user from 10.0.0.7:4711: unknown"),
    ],
)  # fmt: skip
def test_what_a_gate_refuses_is_a_line_whatever_it_is(audit, rule, gate, peer, said):
    with pytest.raises(RequestError):
        call(lambda *_: Answer(), rule, gate=gate, peer=peer, topic="t")
    assert audit() == [f"WARNING {said}"]


def test_requests_that_change_nothing_pay_nothing(audit):
    def answer(*_):
        return Answer()

    table = RequestTable([SEND], [{SEND.code: answer}], HERE_ONLY)
    assert table.handlers[SEND.code] is answer
    call(answer, LOOK)
    call(answer, SEND, gate=Signed(), AccessKey="admin")
    assert not audit()


def test_each_administrative_request_is_audited_unless_it_only_reads():
    reads = ("GET", "QUERY", "VIEW", "LIST", "CHECK", "EXPORT", "EXCHANGE")
    for rule in (*broker.RULES, *nameserver.RULES):
        name = request_name(rule.code)
        if rule.right is not Right.ADMINISTRATOR:
            assert not rule.is_audited, name
        elif not rule.is_audited:
            assert any(word in name for word in reads), name
    told = {request_name(rule.code) for rule in broker.RULES if rule.is_audited}
    assert "UPDATE_AND_GET_GROUP_FORBIDDEN" in told
    assert len(told) > 30


def test_facts_are_fields_of_json(audit):
    with pytest.raises(RequestError):
        call(fail, gate=Signed(), topic="a\nb", AccessKey="admin")
    [line] = audit(JsonLineFormatter())
    told = json.loads(line)
    facts = {
        name: told[name] for name in ("outcome", "request", "user", "address", "what", "reason")
    }
    assert facts == {
        "outcome": "failed",
        "request": "UPDATE_AND_CREATE_TOPIC",
        "user": "admin",
        "address": "10.0.0.7:4711",
        "what": r"topic=a\nb",
        "reason": "SYSTEM_ERROR: no such topic",
    }


SECRETS = (
    secret_names(BrokerSettings) | secret_names(NameServerSettings) | {"password", "secretKey"}
)


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_no_secret_is_told(name):
    as_json = json.dumps({"users": [{name: CANARY, "nested": {name: {"deep": [CANARY]}}}]})
    for said in (
        described({name: CANARY}, b""),
        described({}, f"{name}={CANARY}\nlistenPort=1".encode()),
        described({}, as_json.encode()),
        described({}, f"{{{name}:'{CANARY}'}}".encode()),  # As fastjson may write it.
        described({}, as_json[:-3].encode()),
        described({}, b"\xef\xbb\xbf" + f'{{"username":"bob","{name}":"{CANARY}"}}'.encode()),
        described({"value": as_json}, b""),
    ):
        assert CANARY not in said
        assert said


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"username": "bob", f"password={CANARY}": 1}).encode(),
        f'{{{{"password":"{CANARY}"}}:1}}'.encode(),
        f"password\\={CANARY}".encode(),
    ],
)
def test_no_secret_is_told_as_a_part_of_a_name(body):
    assert CANARY not in described({}, body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"user":{"password":71829364}}',
        b'{"user":{"password":[71829364,"x"]}}',
        b'{"user":[{"password":"71829364"}]}',
        b'{"user":[[[[[[[[{"password":"71829364"}]]]]]]]]}',
        b'[{"password":71829364}]',
        b'{"user":{"password":71829364',
        b'{"user":"x","password":71829364,' + b" " * 20_000 + b'"a":1}',
    ],
)
def test_no_reason_quotes_a_secret_of_an_odd_type(audit, body):
    def refuse(command, *_):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"user: password must be a text, not {command[7][:60]!r}",
        )

    with pytest.raises(RequestError):
        call(refuse, body=body)
    [line] = audit()
    assert "71829364" not in line
    assert "INVALID_PARAMETER" in line


def test_a_reason_that_quotes_no_secret_stands_whole(audit):
    def refuse(*_):
        raise RequestError(ResponseCode.INVALID_PARAMETER, "password: it is missing")

    with pytest.raises(RequestError):
        call(refuse, body=b'{"username":"bob","password":""}')
    assert audit()[0].endswith("INVALID_PARAMETER: password: it is missing")


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({f"name{number}": "x" * 10_000 for number in range(5_000)}, b""),
        ({"x" * 1_000_000: "y" * 1_000_000}, b""),
        ({}, json.dumps([{"topicName": "x" * 100}] * 150).encode()),
        ({}, b"[" * 5_000),
        ({}, b"[" * 30 + b"]" * 30),
        ({}, b'{"a":' * 8_000),
        ({}, b"\xff" * 1_000_000),
        ({}, b"key=\\u12"),
        ({"newline": "a\nWARNING forged\x1b[31m"}, b"b\x00c\r\n"),
    ],
)
def test_what_a_peer_says_is_short_and_on_one_line(fields, body):
    said = described(fields, body)
    assert len(said) <= WHAT_MAX
    assert said.isprintable()


def test_a_name_may_have_a_word_of_secrets():
    assert described({"topic": "secret-santa"}, b"") == "topic=secret-santa"


def test_what_a_group_is_changed_to_stands_whole():
    config = {"groupName": "billing", "consumeEnable": False, "retryQueueNums": 1} | {
        f"setting{number}": number for number in range(20)
    }
    said = described({}, json.dumps(config).encode())
    assert said.startswith("groupName=billing, consumeEnable=false, retryQueueNums=1, ")
    assert said.endswith("setting19=19")


def test_a_user_without_signature_has_the_name_of_nobody():
    assert EVERYBODY.name == "an unauthenticated user"
