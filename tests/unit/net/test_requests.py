"""The table of requests: what needs a right is asked before its handler runs, alone and in batches."""

from __future__ import annotations

import pytest

from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.rights import Access, Action, Resource, Right
from cometmq.net.answer import Answer
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.requests import Answers, OwnMachineGate, RequestRule, RequestTable, topic
from cometmq.net.server import Server

PUT, DROP, LOOK = 9001, 9002, 9003
RULES = [
    RequestRule(PUT, Right.WRITER, (topic("topic", Action.PUB),), is_batch=True),
    RequestRule(DROP, Right.WRITER, (topic("topic", Action.DELETE),), is_batch=True),
    RequestRule(LOOK, Right.READER, (topic("topic", Action.GET),)),
]


class Batches:
    """Answers with what each command holds, and keeps the sizes of its batches."""

    def __init__(self):
        self.sizes = []
        self.bodies = []
        self.written_count = 0

    def handle(self, reads):
        self.sizes.append(sum(len(commands) for _, commands in reads))
        for peer, commands in reads:
            for command in commands:
                self.bodies.append(command[7])
                peer.answer(command, Answer(0, body=command[7]))

    def written(self):
        self.written_count += 1


class TopicGate:
    """Lets pass what touches the topic `open` only."""

    def is_asked(self, _rule):
        return True

    def check(self, rule, request, _peer):
        for access in rule.accesses(request[6], request[7]):
            if access.name != "open":
                raise RequestError(ResponseCode.NO_PERMISSION, f"not {access.name}")


class Elsewhere:
    """A peer of another machine."""

    is_on_own_machine = False


@pytest.fixture
async def asking():
    batches, looked = Batches(), []

    def look(command, _peer):
        looked.append(command.fields["topic"])
        return Answer(0, body=b"seen")

    answers: list[Answers] = [{PUT: batches, DROP: batches}, {LOOK: look}]
    server = Server(Dispatcher(RequestTable(RULES, answers, TopicGate())), SystemClock())
    port = await server.start("127.0.0.1", 0)
    channels = Channels(SystemClock())
    yield await channels.get(f"127.0.0.1:{port}"), batches, looked
    await channels.close()
    await server.close()


async def test_a_handler_does_not_see_what_the_gate_refuses(asking):
    channel, _, looked = asking
    refused = await channel.start_call(Command(LOOK, fields={"topic": "shut"}), timeout_ms=5000)
    assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "not shut")
    seen = await channel.start_call(Command(LOOK, fields={"topic": "open"}), timeout_ms=5000)
    assert (seen.body, looked) == (b"seen", ["open"])


async def test_each_request_of_a_batch_is_asked_about_and_the_others_stay_one_batch(asking):
    channel, batches, _ = asking
    asked = [
        channel.start_call(
            Command(
                PUT if number % 2 else DROP,
                fields={"topic": "open" if number % 3 else "shut"},
                body=bytes([number]),
            ),
            timeout_ms=5000,
        )
        for number in range(12)
    ]
    answers = [await call for call in asked]
    for number, answer in enumerate(answers):
        if number % 3:
            assert (answer.code, answer.body) == (0, bytes([number]))
        else:
            assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "not shut")
    assert sum(batches.sizes) == 8
    assert max(batches.sizes) > 1
    assert batches.written_count >= len(batches.sizes)


async def test_a_oneway_request_is_refused_in_silence(asking):
    channel, batches, _ = asking
    channel.oneway(Command(PUT, fields={"topic": "shut"}, body=b"a"))
    good = await channel.start_call(
        Command(PUT, fields={"topic": "open"}, body=b"b"), timeout_ms=5000
    )
    assert good.body == b"b"
    assert batches.bodies == [b"b"]


def test_without_access_control_only_administration_asks_where_a_peer_sits():
    gate = OwnMachineGate(lambda rule, _peer: f"{rule.code} is for our machine")
    for right in Right:
        rule = RequestRule(1, right, ())
        assert gate.is_asked(rule) == (right is Right.ADMINISTRATOR)
    rule = RequestRule(1, Right.ADMINISTRATOR, ())
    with pytest.raises(RequestError, match="1 is for our machine") as refused:
        gate.check(rule, Command(1), Elsewhere())  # type: ignore[arg-type]
    assert refused.value.code == ResponseCode.NO_PERMISSION


def test_what_is_not_asked_about_stands_in_the_table_as_it_is():
    batches, look = Batches(), lambda *_: Answer()
    table = RequestTable(
        RULES, [{PUT: batches, DROP: batches, LOOK: look}], OwnMachineGate(lambda *_: "no")
    )
    assert table.batches == {PUT: batches, DROP: batches}
    assert table.handlers == {LOOK: look}


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ([{PUT: Batches(), DROP: Batches()}], "nobody answers .9003."),
        ([{1: lambda *_: Answer()}], "no rule for 1"),
        ([{LOOK: lambda *_: Answer()}, {LOOK: lambda *_: Answer()}], "two handlers for 9003"),
        ([{PUT: lambda *_: Answer()}], "9001 as a batch?"),
        ([{LOOK: Batches()}], "9003 as a batch?"),
    ],
)
def test_a_table_with_a_hole_is_none(answers, complaint):
    with pytest.raises(AssertionError, match=complaint):
        RequestTable(RULES, answers, OwnMachineGate(lambda *_: "no"))


def test_a_retry_topic_is_its_groups():
    def touched(name, *actions):
        return list(topic("t", *actions).find({"t": name}, b""))

    group = Resource.GROUP, "g"
    assert touched("%RETRY%g", Action.PUB) == [Access(*group, frozenset({Action.SUB}))]
    # To take messages of a group is no right to delete what it keeps.
    assert touched("%RETRY%g", Action.DELETE) == [Access(*group, frozenset({Action.DELETE}))]
    assert touched("T", Action.PUB) == [Access(Resource.TOPIC, "T", frozenset({Action.PUB}))]
    assert touched("", Action.PUB) == []
