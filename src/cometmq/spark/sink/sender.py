"""Sending of a Spark task's requests with acknowledgement: everything that a task reports is stored.

Several requests may be in flight at once, but not two batches for one selected queue: rows in batch requests for
it keep the order of the task even if a request is retried, though a retry may store rows twice.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic, sleep

from cometmq import SendResult, SendStatus
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerRefused,
    CometError,
    NetError,
    SendFailed,
    SettingsError,
    TopicNotFound,
)
from cometmq.model.java_hash import java_hash
from cometmq.model.queue import MessageQueue
from cometmq.model.text import as_given, in_quotes, plural
from cometmq.spark.sink.batches import Request, RowBatch, RowPlace
from cometmq.spark.sink.cluster import Outcomes, SinkCluster
from cometmq.spark.sink.columns import RowTarget
from cometmq.spark.sink.settings import SinkSettings

log = logging.getLogger(__name__)

_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.1, 2.0
# After one of these codes a broker may accept the same request a little later.
_LATER_CODES = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
    )
)
# The broker has the message but might lose it in a power failure.
_UNSAFE = (SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT)


@dataclass
class StoredRows:
    """Acknowledged messages of a task in one queue: their number, lowest and highest offset (inclusive)."""

    rows: int
    first: int
    last: int


@dataclass
class _SentRequest:
    request: Request
    outcomes: Future[Outcomes]
    deadline: float


# Called for each stored half message, with its request and the send result.
HalfMessageCallback = Callable[[Request, SendResult], None]


@dataclass
class TaskSender:
    """Sender of the requests of one task, which waits for the acknowledgement of each.

    Attributes:
        cluster: Cluster to send to.
        settings: Options of the write.
        own_queue: With queueSelector=partition, the task's partition number, which (modulo the number of queues)
            selects the queue of rows that name none and have no sharding key; None for any queue.
        on_half_message: Called for each acknowledged half message; None if rows are not half messages.
        stored: Acknowledged messages so far, by queue, without half messages and delayed rows.
        delayed: Number of acknowledged rows with a delay level or delivery time.
    """

    cluster: SinkCluster
    settings: SinkSettings
    own_queue: int | None = None
    on_half_message: HalfMessageCallback | None = None
    stored: dict[MessageQueue, StoredRows] = field(default_factory=dict)
    delayed: int = 0
    _queues: dict[str, Sequence[MessageQueue]] = field(default_factory=dict)
    _under_way: deque[_SentRequest] = field(default_factory=deque)

    def place_of(self, target: RowTarget) -> RowPlace:
        """Return a row's topic and queue: the one it names, its key selects or `own_queue` selects, or None for any.

        Raises:
            SettingsError: The topic has no such queue, several brokers have it, or only the broker is named.
            CometError: A queue must be selected, but the topic's writable queues are unknown, or it has none.
        """
        if target.queue_id is not None or target.broker_name is not None:
            return RowPlace(target.topic, self._named(target))
        number = self.own_queue
        if target.sharding_key:
            # Follows SelectMessageQueueByHash of the Java client, so both choose alike.
            number = abs(java_hash(target.sharding_key))
        if number is None:
            return RowPlace(target.topic)
        queues = self._writable(target.topic)
        return RowPlace(target.topic, queues[number % len(queues)])

    def send(self, request: Request) -> None:
        """Start sending a request when fewer than `maxInflight` requests, and none for its queue, are in flight.

        Until then, wait for the oldest requests and retry them; raise CometError if one of these fails finally.
        """
        while len(self._under_way) >= self.settings.inflight_max or self._has_under_way(
            request
        ):
            self._wait_oldest()
        deadline = monotonic() + self.settings.delivery_timeout_ms / 1000
        self._under_way.append(_SentRequest(request, self.cluster.start(request), deadline))

    def finish(self) -> None:
        """Wait until all requests are stored, with retries; raise CometError if one is refused or not stored in time."""
        while self._under_way:
            self._wait_oldest()

    def give_up(self) -> None:
        """Wait for the outcomes of the requests in flight, without sending failed ones again: the task has failed."""
        while self._under_way:
            under_way = self._under_way.popleft()
            self._settle(under_way.request, under_way.outcomes)

    def _has_under_way(self, request: Request) -> bool:
        return request.place.queue is not None and any(
            each.request.place == request.place for each in self._under_way
        )

    def _wait_oldest(self) -> None:
        under_way = self._under_way.popleft()
        request, outcomes = under_way.request, under_way.outcomes
        pause = _PAUSE_SECONDS
        while failures := self._settle(request, outcomes):
            for error in failures.values():
                if not _may_come_later(error) or monotonic() + pause > under_way.deadline:
                    raise error
            request = request.only(list(failures))
            log.warning(
                "%d %s for %s will be sent again: %s",
                request.rows, plural(request.rows, "row"), request.place.queue or request.place.topic, error,
            )  # fmt: skip
            sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            outcomes = self.cluster.start(request)

    def _settle(self, request: Request, outcomes: Future[Outcomes]) -> dict[int, CometError]:
        """Wait for a request's outcomes and record safely stored messages; return the other outcomes as errors, by index."""
        failures: dict[int, CometError] = {}
        for index, outcome in enumerate(outcomes.result()):
            if isinstance(outcome, CometError):
                failures[index] = outcome
            elif outcome.status in _UNSAFE:
                failures[index] = SendFailed(
                    f"stored at {outcome.queue}, but with the status {outcome.status}"
                )
            elif self.on_half_message is not None:
                self.on_half_message(request, outcome)
            elif isinstance(request, RowBatch):
                self._note(outcome, request.rows)
            else:
                self.delayed += 1
        return failures

    def _note(self, result: SendResult, rows: int) -> None:
        first, last = result.queue_offset, result.queue_offset + rows - 1
        known = self.stored.get(result.queue)
        if known is None:
            self.stored[result.queue] = StoredRows(rows, first, last)
        else:
            known.rows += rows
            known.first, known.last = min(known.first, first), max(known.last, last)

    def _writable(self, topic: str) -> Sequence[MessageQueue]:
        if topic not in self._queues:
            self._queues[topic] = self.cluster.writable_queues(topic)
        if not self._queues[topic]:
            raise TopicNotFound(
                f"topic {in_quotes(topic)} has no writable queue; see cometmq topic show"
            )
        return self._queues[topic]

    def _named(self, target: RowTarget) -> MessageQueue:
        fitting = [
            queue
            for queue in self._writable(target.topic)
            if target.broker_name in (None, queue.broker_name)
            and target.queue_id in (None, queue.queue_id)
        ]
        if target.queue_id is None or len(fitting) != 1:
            raise SettingsError(
                f"brokerName {as_given(target.broker_name)} and queueId {target.queue_id} match "
                f"{len(fitting)} writable queues of topic {target.topic}; they must match exactly one"
            )
        return fitting[0]


def _may_come_later(error: CometError) -> bool:
    if isinstance(error, BrokerRefused):
        return error.code in _LATER_CODES
    return isinstance(error, NetError | SendFailed)
