"""Message traces: records about sends, ends of transactions and listener calls, sent to a topic that consoles read.

Records wait in a bounded queue and are sent in the background, up to 10 in a message. Records that find the queue
full, or whose send fails, are lost and counted. Follows AsyncTraceDispatcher and the trace hooks of RocketMQ 5.3.3.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.identity import make_unique_ids
from cometmq.client.producer.accumulator import split_result
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.results import DEFAULT_REGION, SendResult, SendStatus
from cometmq.client.settings import ProducerSettings
from cometmq.client.tracing.interceptors import CallEnded, Messages, SendEnded, TransactionEnd
from cometmq.codec.trace import (
    Trace,
    TracedMessage,
    TraceKind,
    TraceOutcome,
    encode_traces,
    trace_keys,
)
from cometmq.model import properties as keys_of
from cometmq.model.errors import CometError
from cometmq.model.message import Message, StoredMessage
from cometmq.model.text import plural
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

# As in AsyncTraceDispatcher: batchNum, the capacity of traceContextQueue, flushTraceInterval.
BUNCH = 10
WAITING_MAX = 2048
FLUSH_SECONDS = 5.0
_TRACING = "sending the traces of"
_TRACE_GROUP = "_INNER_TRACE_PRODUCER"
# The names in LocalTransactionState of RocketMQ.
_STATES = {"COMMIT": "COMMIT_MESSAGE", "ROLLBACK": "ROLLBACK_MESSAGE", "UNKNOWN": "UNKNOW"}


class Tracer:
    """The message traces of one producer or push consumer, sent in the background to `topic`.

    Attributes:
        dropped: Number of records that were lost, because too many were waiting or their send failed.
    """

    def __init__(self, instance: ClientInstance, group: str, topic: str) -> None:
        self.dropped = 0
        self._instance = instance
        self._group = group
        self._topic = topic
        self._waiting: deque[Trace] = deque()
        settings = ProducerSettings()
        self._ids = make_unique_ids(instance.ip, instance.clock, instance.chance)
        self._encoder = SendEncoder(
            f"{_TRACE_GROUP}_{group}"[:255], settings, instance.clock, self._ids
        )
        self._sender = EncodedSender(instance, settings)
        self._tasks = Tasks(f"{group} traces")
        self._loop = asyncio.get_running_loop()
        self._bunch_ready = asyncio.Event()
        self._is_closing = False
        self._sending = self._tasks.spawn(self._send_until_closing(), "send")

    # --- interceptor methods

    def sending(self, messages: Messages, kind: TracedMessage) -> tuple[Messages, SendEnded]:
        """Return the messages unchanged, and a function to call after the send, which records a trace of each message.

        Nothing is recorded if the send failed, or the broker wants no traces (TRACE_ON=false) or gave no region.
        Differs: RocketMQ writes one record per batch (not found by a message's id), and none for one-way sends.
        """
        began_ms = self._instance.clock.now_ms()

        def ended(result: SendResult | None, _error: BaseException | None) -> None:
            if result is None or not result.is_trace_on or result.region is None:
                return
            for message, own in zip(messages, split_result(result, len(messages)), strict=True):
                self._note_send(message, own, began_ms, kind)

        return messages, ended

    def _note_send(
        self, message: Message, result: SendResult, began_ms: int, kind: TracedMessage
    ) -> None:
        if message.delay_level or message.deliver is not None:
            kind = TracedMessage.DELAY
        self._note(
            Trace(
                kind=TraceKind.PUB,
                message_id=result.message_id,
                time_ms=began_ms,
                region=result.region or DEFAULT_REGION,
                group=self._group,
                topic=message.topic,
                tags=message.tag or "",
                keys=keys_of.KEY_SEPARATOR.join(message.key_words),
                store_host=self._instance.routes.address(result.queue.broker_name) or "",
                body_size=len(message.body),
                took_ms=self._instance.clock.now_ms() - began_ms,
                message_kind=kind,
                offset_message_id=result.offset_message_id,
                is_success=result.status is SendStatus.OK,
            )
        )

    def ending(self, end: TransactionEnd) -> Callable[[BaseException | None], None]:
        """Return a function to call after a transaction's end was reported; it records a trace unless the report failed."""
        time_ms = self._instance.clock.now_ms()

        def ended(error: BaseException | None) -> None:
            if error is None:
                self._note(
                    Trace(
                        kind=TraceKind.END_TRANSACTION,
                        message_id=end.message_id,
                        time_ms=time_ms,
                        region=end.region or DEFAULT_REGION,
                        group=self._group,
                        topic=end.topic,
                        tags=end.tag,
                        keys=keys_of.KEY_SEPARATOR.join(end.keys),
                        store_host=end.address,
                        message_kind=TracedMessage.COMMIT,
                        is_success=end.state == "COMMIT",
                        transaction_id=end.transaction_id,
                        state=_STATES[end.state],
                        is_from_check=end.is_from_check,
                    )
                )

        return ended

    def calling(self, messages: Sequence[StoredMessage]) -> CallEnded:
        """Record the start of a listener call for each message; return a function that records its end, too.

        Messages with the property TRACE_ON=false are left out. Both functions may run in any thread.
        """
        clock = self._instance.clock
        began_ms, request_id = clock.now_ms(), self._ids.next_id()
        traced = [each for each in messages if each.properties.get(keys_of.TRACE_ON) != "false"]
        for message in traced:
            self._note(
                Trace(
                    kind=TraceKind.SUB_BEFORE,
                    message_id=message.message_id,
                    time_ms=began_ms,
                    region=message.properties.get(keys_of.MSG_REGION, ""),
                    group=self._group,
                    request_id=request_id,
                    tries=message.reconsume_times,
                    keys=keys_of.KEY_SEPARATOR.join(message.keys),
                )
            )

        def ended(outcome: TraceOutcome, _error: BaseException | None) -> None:
            took_ms = (clock.now_ms() - began_ms) // max(len(messages), 1)
            for message in traced:
                self._note(
                    Trace(
                        kind=TraceKind.SUB_AFTER,
                        message_id=message.message_id,
                        time_ms=began_ms,
                        group=self._group,
                        request_id=request_id,
                        keys=keys_of.KEY_SEPARATOR.join(message.keys),
                        took_ms=took_ms,
                        is_success=outcome is TraceOutcome.SUCCESS,
                        outcome=outcome,
                    )
                )

        return ended

    # --- sending

    def _note(self, trace: Trace) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(trace)
        if len(self._waiting) == BUNCH:
            self._loop.call_soon_threadsafe(self._bunch_ready.set)

    async def _send_until_closing(self) -> None:
        while not self._is_closing:
            try:
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._bunch_ready.wait()
            except TimeoutError:
                pass
            self._bunch_ready.clear()
            await self._flush()

    async def _flush(self) -> None:
        while self._waiting:
            count = min(len(self._waiting), BUNCH)
            bunch = [self._waiting.popleft() for _ in range(count)]
            message = Message(self._topic, encode_traces(bunch), keys=trace_keys(bunch))
            try:
                await self._sender.start(self._encoder.pack(message), None, None)
            except CometError as error:
                self.dropped += count
                self._instance.outages.failed(_TRACING, self._group, error, self._group)
            else:
                self._instance.outages.worked(_TRACING, self._group)

    async def close(self) -> None:
        """Stop after trying to send the traces that are still queued, and log how many traces were lost, if any."""
        self._is_closing = True
        self._bunch_ready.set()
        await asyncio.wait(
            [self._sending]
        )  # Not cancelled: that would lose the traces that it is sending.
        if self.dropped:
            _log.warning(
                "%d %s of group %s could not be sent and %s lost",
                self.dropped,
                plural(self.dropped, "trace"),
                self._group,
                plural(self.dropped, "is", "are"),
            )
