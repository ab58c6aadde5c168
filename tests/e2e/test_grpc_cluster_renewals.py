"""The proxy's handles at scripted brokers: renewals that cross acknowledgements, and refusals that say nothing of a handle."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.receipt import Receipt
from cometmq.codec.remoting import Command, encode_command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.tasks import Tasks
from cometmq.proxy.cluster.backend import ClusterBackend
from cometmq.proxy.v2.sent_messages import SendLimits
from cometmq.proxy.v2.statuses import ProxyRefusal
from cometmq.steps.on_loop import LoopWorld
from cometmq.steps.runner import StepsRun
from cometmq.steps.steps import Steps
from tests.support.scripted import TOPIC, ScriptedCluster, refuse, until

CHANGE, ACK = RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.ACK_MESSAGE
_CHANGED = {"invisibleTime": "60000", "reviveQid": "3"}


class _Brokers(ScriptedCluster):
    """Brokers whose answers to a change can be held back, and which keep handles or not."""

    def __init__(self, *, keeps_handles: bool) -> None:
        super().__init__()
        self.keeps_handles = keeps_handles
        self.refusal = 0
        self.is_held = False
        self.held: list[tuple[Command, Peer]] = []
        self.popped_ms = int(time.time() * 1_000)
        self.a.scripts[CHANGE] = self.change

    def change(self, command: Command, peer: Peer) -> Answer | None:
        if not command.fields["extraInfo"]:
            if self.keeps_handles:
                return Answer(fields={"popTime": "1", **_CHANGED, "keepHandle": "true"})
            return Answer(ResponseCode.NO_MESSAGE, "offset is illegal")
        if self.refusal:
            return Answer(self.refusal, "as the script says")
        if self.is_held:
            self.held.append((command, peer))
            return None
        fields = {"popTime": str(self.popped_ms + 1), **_CHANGED}
        return Answer(fields=fields | ({"keepHandle": "true"} if self.keeps_handles else {}))

    def answer_held(self) -> None:
        for command, peer in self.held:
            fields = {"popTime": str(self.popped_ms + 1), **_CHANGED}
            answer = Command(0, flag=1, opaque=command.opaque, fields=fields)
            peer.write_at_once(encode_command(answer))

    def changes(self) -> list[str]:
        """The handles that were changed."""
        asked = [each.fields["extraInfo"] for each in self.a.requests(CHANGE)]
        return [each for each in asked if each]

    def acks(self) -> list[str]:
        """The handles that were acknowledged."""
        return [each.fields["extraInfo"] for each in self.a.requests(ACK)]

    def receipt(self, *, seconds: int = 60) -> Receipt:
        return Receipt(0, self.popped_ms, seconds * 1_000, 3, "0", "a", 0, 0)


@asynccontextmanager
async def backend_of(brokers: _Brokers) -> AsyncIterator[ClusterBackend]:
    tasks = Tasks("test")
    async with brokers.names, brokers.a, brokers.b:
        instance = ClientInstance(brokers.names.address)
        await instance.start()
        backend = ClusterBackend(instance, SendLimits(1_000, 1_000), tasks)
        try:
            yield backend
        finally:
            await tasks.close()
            await backend.close()
            await instance.close()


async def run(steps: Steps[Any]) -> Any:
    ended = asyncio.get_running_loop().create_future()

    def end(result: Any, error: BaseException | None) -> None:
        ended.set_result(result) if error is None else ended.set_exception(error)

    StepsRun(LoopWorld(), steps, end).go_on()
    return await ended


@pytest.mark.parametrize("is_first", ["acknowledgement", "renewal"])
async def test_what_a_renewal_made_while_its_message_was_acknowledged_is_acknowledged_too(
    is_first,
):
    brokers = _Brokers(keeps_handles=False)
    async with backend_of(brokers) as backend:
        first = brokers.receipt()
        [pop] = backend.held([first], TOPIC, "g")
        brokers.is_held = True
        pop.extend(60_000)
        await until(lambda: brokers.held, "the renewal")

        def acknowledged(_command: Command, _peer: Peer) -> Answer:
            if is_first == "renewal" and len(brokers.acks()) == 1:
                brokers.answer_held()
            return Answer()

        brokers.a.scripts[ACK] = acknowledged
        assert await run(backend.acknowledge([first], TOPIC, "g")) == [None]
        if is_first == "acknowledgement":
            brokers.answer_held()
        made = first._replace(pop_time_ms=brokers.popped_ms + 1)
        await until(lambda: len(brokers.acks()) == 2, "the acknowledgement of the new handle")
        assert brokers.acks() == [str(first), str(made)]
        assert pop.is_over


@pytest.mark.parametrize("keeps_handles", [True, False])
async def test_a_busy_broker_is_asked_again_until_the_messages_are_hidden(keeps_handles):
    brokers = _Brokers(keeps_handles=keeps_handles)
    brokers.refusal = ResponseCode.SYSTEM_BUSY
    async with backend_of(brokers) as backend:
        [pop] = backend.held([brokers.receipt()], TOPIC, "g")
        pop.extend(60_000)
        await until(lambda: len(brokers.changes()) == 3, "three attempts")
        assert not pop.is_over
        brokers.refusal = 0
        await until(lambda: len(brokers.changes()) == 4, "one more")
        assert not pop.is_over
        brokers.refusal = ResponseCode.NO_MESSAGE
        pop.extend(60_000)
        await until(lambda: pop.is_over, "the end")


async def test_a_busy_broker_does_not_make_a_late_handle_void():
    brokers = _Brokers(keeps_handles=True)
    async with backend_of(brokers) as backend:
        late = brokers.receipt(seconds=0)
        for code, wanted in (
            (ResponseCode.SERVICE_NOT_AVAILABLE, RequestError),
            (ResponseCode.NO_MESSAGE, ProxyRefusal),
        ):
            brokers.refusal = code
            [outcome] = await run(backend.acknowledge([late], TOPIC, "g"))
            assert isinstance(outcome, wanted)
        assert brokers.acks() == []


async def test_a_broker_that_does_not_know_kept_handles_is_not_asked_about_a_late_one():
    brokers = _Brokers(keeps_handles=False)
    async with backend_of(brokers) as backend:
        late = brokers.receipt(seconds=0)
        [outcome] = await run(backend.acknowledge([late], TOPIC, "g"))
        assert isinstance(outcome, ProxyRefusal)
        await run(backend.bury(late, 0, TOPIC, "g"))
        assert brokers.changes() == []
        assert brokers.a.requests(RequestCode.CONSUMER_SEND_MSG_BACK) == []


async def test_a_dead_letter_that_the_log_does_not_have_is_only_acknowledged():
    brokers = _Brokers(keeps_handles=True)
    brokers.a.scripts[RequestCode.VIEW_MESSAGE_BY_ID] = lambda *_: Answer(
        ResponseCode.SYSTEM_ERROR, "can not find message by the offset, 0"
    )
    async with backend_of(brokers) as backend:
        await run(backend.bury(brokers.receipt(), 0, TOPIC, "g"))
        assert brokers.acks() == [str(brokers.receipt())]
        brokers.a.scripts[RequestCode.VIEW_MESSAGE_BY_ID] = refuse(ResponseCode.SYSTEM_ERROR)
        with pytest.raises(RequestError):
            await run(backend.bury(brokers.receipt(), 0, TOPIC, "g"))
        brokers.a.scripts[RequestCode.VIEW_MESSAGE_BY_ID] = lambda *_: Answer(body=b"no record")
        with pytest.raises(ProxyRefusal, match="another place in the log"):
            await run(backend.bury(brokers.receipt(), 0, TOPIC, "g"))
        assert brokers.a.requests(RequestCode.CONSUMER_SEND_MSG_BACK) == []
