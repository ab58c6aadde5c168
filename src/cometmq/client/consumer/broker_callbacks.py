"""Answers to brokers that query a consumer on behalf of consoles: requests 221, 307, 309 (docs/design/0044).

For 309 the listener, if there is one, runs on one message, and no offset is committed. Follows
ClientRemotingProcessor and DefaultMQPushConsumerImpl.consumerRunningInfo of RocketMQ 5.3.3.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import TYPE_CHECKING

from cometmq.client.bounded_tasks import BoundedTasks
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pop.pop_loop import PopLoop
from cometmq.client.consumer.pull.pull_loop import PullLoop
from cometmq.client.consumer.pull.received import unpack
from cometmq.client.consumer.rebalance import BrokerAssignment
from cometmq.client.consumer.settings import ConsumerSettings
from cometmq.codec.bodies.queue_offsets import encode_client_offsets
from cometmq.codec.bodies.running import (
    DirectOutcome,
    PopState,
    QueueState,
    RunningState,
    encode_direct,
    encode_running,
)
from cometmq.codec.record import decode_records
from cometmq.codec.remoting import Command
from cometmq.model.codes import VERSION_DESCRIPTION, RequestCode, ResponseCode
from cometmq.model.errors import CodecError, CometError
from cometmq.model.message import StoredMessage
from cometmq.model.namespace import namespace_of
from cometmq.model.queue import MessageQueue
from cometmq.net.answer import Answer, answer_to_error
from cometmq.net.channel import Channel

if TYPE_CHECKING:
    from cometmq.client.consumer.group_member import GroupMember

# Runs the listener on one message.
ConsumeDirectly = Callable[[StoredMessage], Awaitable[DirectOutcome]]

_TOLD_SECONDS = 0.1
_DIRECT_AT_ONCE = 4  # Limit for messages that are unpacked and consumed directly at once.


class BrokerCallbacks:
    """Answers queries of brokers about one member of a group: its state, its offsets, its listener's result for a message.

    Attributes:
        consume: Runs the listener on one message; None: there is no listener.
        assigned: Contains the loops of popped queues; None: no broker is asked to assign queues.
    """

    def __init__(
        self,
        member: "GroupMember",
        instance: ClientInstance,
        settings: ConsumerSettings,
    ) -> None:
        self.consume: ConsumeDirectly | None = None
        self.assigned: BrokerAssignment | None = None
        self._member = member
        self._instance = instance
        self._settings = settings
        self._direct = BoundedTasks(f"{member.group} direct")
        self._turn = asyncio.Semaphore(_DIRECT_AT_ONCE)
        # Reported state with its expiry time (monotonic seconds), by whether it includes stacks.
        self._told: dict[bool, tuple[float, bytes]] = {}
        self._started_ms = instance.clock.now_ms()

    def take(self, command: Command, channel: Channel) -> bool:
        """Answer a query of a broker, now or later; return False for other requests, and for 309 without a listener."""
        match command.code:
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                body = self._running_body(command.fields.get("jstackEnable") == "true")
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                body = encode_client_offsets(self._offsets(command.fields.get("topic")))
            case RequestCode.CONSUME_MESSAGE_DIRECTLY if self.consume is not None:
                self._consume_soon(command, channel, self.consume)
                return True
            case _:
                return False
        channel.answer(command, Answer(body=body))
        return True

    def _running_body(self, is_with_stacks: bool) -> bytes:  # noqa: FBT001  A key of a table.
        """Return the member's encoded state, cached for 0.1 s: many may query at once, and stacks are slow."""
        now = self._instance.clock.monotonic()
        until, body = self._told.get(is_with_stacks, (0.0, b""))
        if until <= now:
            body = encode_running(self.running(is_with_stacks=is_with_stacks))
            self._told[is_with_stacks] = now + _TOLD_SECONDS, body
        return body

    def _consume_soon(
        self, command: Command, channel: Channel, consume: ConsumeDirectly
    ) -> None:
        size = len(command.body)
        if not self._direct.has_room(size):
            remark = "too many messages wait to be consumed directly; repeat the request later"
            channel.answer(command, Answer(ResponseCode.SYSTEM_BUSY, remark))
            return
        self._direct.spawn(self._consume_one(command, channel, consume), "direct", size)

    async def close(self) -> None:
        """Cancel the direct consumption of messages; a `def` listener that runs in a thread goes on."""
        await self._direct.close()

    def running(self, *, is_with_stacks: bool = False) -> RunningState:
        """Return the member's state: settings, subscriptions, queues, rates and, if wanted, stacks of this process's threads."""
        part = self._member.heartbeat_part()
        queues = {queue: self._state(loop) for queue, loop in self._member.loops.items()}
        assigned = self.assigned
        popped = {} if assigned is None else assigned.loops
        return RunningState(
            self._properties(part.consume_type),
            tuple(sorted(part.subscriptions, key=lambda each: each.topic)),
            queues,
            self._member.counts.rates(),
            _stacks() if is_with_stacks else None,
            {queue: _pop_state(loop) for queue, loop in popped.items()},
        )

    def _properties(self, consume_type: str) -> dict[str, str]:
        settings = {
            each.name: _value_text(getattr(self._settings, each.name))
            for each in fields(self._settings)
        }
        return {
            **settings,
            "PROP_NAMESERVER_ADDR": ";".join(self._instance.nameservers.addresses) + ";",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            "PROP_THREADPOOL_CORE_SIZE": settings.get("concurrency", "0"),
            "PROP_CONSUMEORDERLY": settings.get("orderly", "false").lower(),
            "PROP_CONSUME_TYPE": consume_type,
            "PROP_CLIENT_VERSION": VERSION_DESCRIPTION,
        }

    def _state(self, loop: PullLoop) -> QueueState:
        process_queue = loop.process_queue
        return QueueState(
            commit_offset=self._member.progress.get(loop.queue) or 0,
            cached_count=process_queue.count,
            cached_size=process_queue.size,
            cached_min=process_queue.smallest or 0,
            cached_max=(process_queue.smallest or 0) + process_queue.span,
            pulled_ms=loop.pulled_ms,
            consumed_ms=loop.consumed_ms,
            is_dropped=loop.is_dropped,
        )

    def _offsets(self, topic: str | None) -> dict[MessageQueue, int]:
        known = {queue: self._member.progress.get(queue) for queue in self._member.loops}
        return {
            queue: offset
            for queue, offset in known.items()
            if offset is not None and topic in (None, queue.topic)
        }

    async def _consume_one(
        self, command: Command, channel: Channel, consume: ConsumeDirectly
    ) -> None:
        async with self._turn:
            try:
                message = await asyncio.to_thread(self._message_of, command)
                answer = Answer(body=encode_direct(await consume(message)))
            except CometError as error:
                answer = answer_to_error(error, command[0])
        channel.answer(command, answer)

    def _message_of(self, command: Command) -> StoredMessage:
        records = decode_records(command.body)
        if len(records) != 1:
            raise CodecError(
                f"a request for direct consumption must have one message, but it has {len(records)}"
            )
        (record,) = records
        queue = MessageQueue(
            record.topic, command.fields.get("brokerName", ""), record.queue_id
        )
        return unpack(
            record,
            queue,
            body_size_max=self._settings.body_size_max,
            namespace=namespace_of(self._settings.namespace),
        )


def _value_text(value: object) -> str:
    """Return the value of a setting as text; for a callable, its name or the name of its class."""
    return getattr(value, "__name__", type(value).__name__) if callable(value) else str(value)


def _pop_state(loop: PopLoop) -> PopState:
    return PopState(
        waiting_count=loop.waiting_count,
        popped_ms=loop.popped_ms,
        is_dropped=loop.is_dropped,
    )


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001  Documented; there is no other way.
    return "\n\n".join(
        f"{names.get(ident, 'unknown')} ({ident})\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in frames.items()
    )
