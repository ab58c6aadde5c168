"""Nameservers and brokers on real sockets that answer by a script: for what a real one seldom does."""

import asyncio
import time
from collections.abc import Callable

from cometmq.codec.bodies.connection import encode_consumer_ids
from cometmq.codec.bodies.heartbeat import decode_heartbeat
from cometmq.codec.bodies.route import encode_topic_route
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.route import BrokerData, QueueData, TopicRoute
from cometmq.net.answer import Answer
from cometmq.net.clock import SystemClock
from cometmq.net.peer import Peer
from cometmq.net.server import Server
from tests.support.tables import answering

TOPIC = "T"
SECONDS_MAX = 40.0  # CI machines are slow at times.

Script = Callable[[Command, Peer], Answer | None]


class Scripted:
    """A server on a free port that answers by `scripts`; keeps what it was asked."""

    def __init__(self) -> None:
        self.scripts: dict[int, Script] = {}
        self.asked: list[Command] = []
        self.peers: list[Peer] = []
        self.address = ""
        dispatcher = answering(dict.fromkeys(RequestCode, self._answer))
        self.server = Server(dispatcher, SystemClock())

    def _answer(self, command: Command, peer: Peer) -> Answer | None:
        self.asked.append(command)
        if peer not in self.peers:
            self.peers.append(peer)
        script = self.scripts.get(command.code)
        return script(command, peer) if script else Answer()

    def requests(self, code: int) -> list[Command]:
        return [command for command in self.asked if command.code == code]

    async def __aenter__(self) -> "Scripted":
        self.address = f"127.0.0.1:{await self.server.start('127.0.0.1', 0)}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()


class ScriptedCluster:
    """A scripted nameserver and two scripted brokers, each with two queues of the topic."""

    def __init__(self) -> None:
        self.names, self.a, self.b = Scripted(), Scripted(), Scripted()
        self.client_ids: set[str] = set()
        self.names.scripts[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self.route
        self.brokers = {"a": self.a, "b": self.b}
        self.topics = {TOPIC}
        for broker in (self.a, self.b):
            broker.scripts = {
                RequestCode.SEND_MESSAGE_V2: stored,
                RequestCode.HEART_BEAT: self.beat,
                RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.members,
                RequestCode.QUERY_CONSUMER_OFFSET: refuse(ResponseCode.QUERY_NOT_FOUND),
                RequestCode.PULL_MESSAGE: lambda command, _peer: nothing(command),
            }

    def route(self, command: Command, _peer: Peer) -> Answer:
        if command.fields["topic"] not in self.topics:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
        route = TopicRoute(
            tuple(QueueData(name, 2, 2, 6) for name in self.brokers),
            tuple(
                BrokerData("c", name, {0: each.address}) for name, each in self.brokers.items()
            ),
        )
        return Answer(body=encode_topic_route(route, is_standard=True))

    def beat(self, command: Command, _peer: Peer) -> Answer:
        self.client_ids.add(decode_heartbeat(command.body).client_id)
        return Answer()

    def members(self, _command: Command, _peer: Peer) -> Answer:
        return Answer(body=encode_consumer_ids(self.client_ids))

    def answer_sends(self, script: Script) -> None:
        """From now on both brokers answer sends so."""
        for broker in (self.a, self.b):
            broker.scripts[RequestCode.SEND_MESSAGE_V2] = script

    def sends(self) -> list[int]:
        """How many messages came to each broker."""
        return [len(each.requests(RequestCode.SEND_MESSAGE_V2)) for each in (self.a, self.b)]


def stored(command: Command, _peer: Peer) -> Answer:
    return Answer(
        fields={"msgId": "0" * 32, "queueId": command.fields["e"], "queueOffset": "7"}
    )


def refuse(code: int) -> Script:
    return lambda _command, _peer: Answer(code, "as the script says")


def nothing(command: Command) -> Answer:
    offset = command.fields["queueOffset"]
    fields = {"nextBeginOffset": offset, "minOffset": "0", "maxOffset": offset}
    return Answer(ResponseCode.PULL_NOT_FOUND, fields={**fields, "suggestWhichBrokerId": "0"})


def never(_command: Command, _peer: Peer) -> None:
    return None


async def until(look: Callable[[], object], what: str, *, seconds: float = SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        await asyncio.sleep(0.005)
