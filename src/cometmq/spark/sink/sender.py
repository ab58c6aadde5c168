"""Sends requests and waits for every acknowledgement: what a task reports is stored.

Several requests are under way at once, but never two for a queue that rows named or a key chose:
those keep the order of the task even when a request is tried again.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic, sleep

from cometmq.client import SendResult, SendStatus
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
from cometmq.model.text import plural
from cometmq.spark.sink.batches import Request, RowBatch, RowPlace
from cometmq.spark.sink.cluster import Outcomes, SinkCluster
from cometmq.spark.sink.columns import RowTarget
from cometmq.spark.sink.settings import SinkSettings

log = logging.getLogger(__name__)

_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.1, 2.0
# A broker that says one of these may take the same request a little later.
_LATER_CODES = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
    )
)
# The broker has the message, and a power cut could take it back.
_UNSAFE = (SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT)


@dataclass
class StoredRows:
    """The messages that a task has stored in one queue: number, first and last offset."""

    rows: int
    first: int
    last: int


@dataclass
class _SentRequest:
    request: Request
    outcomes: Future[Outcomes]
    deadline: float


# Called with each half message that is stored: of which request, and where it went.
HalfMessageCallback = Callable[[Request, SendResult], None]


@dataclass
class TaskSender:
    """Sends the requests of one task.

    Attributes:
        cluster: where to.
        settings: the options of the write.
        own_queue: number of the task's queue, to which rows go that choose none (`queueSelector` partition),
            counted round the queues of their topic; None: to any.
        on_half_message: called for each half message that is acknowledged; None: there are none.
        stored: what is acknowledged so far.
        delayed: rows that brokers keep until they are due.
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
        """The place of a row: the queue that it names or its key chooses, or any.

        Raises:
            SettingsError: the topic has no such queue, or several brokers have it.
            TopicNotFound: nobody knows the topic.
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
        """Start to send a request; wait first while too many are under way.

        Raises:
            CometError: a request was not stored in its time.
        """
        while len(self._under_way) >= self.settings.inflight_max or self._has_under_way(
            request
        ):
            self._wait_oldest()
        deadline = monotonic() + self.settings.delivery_timeout_ms / 1000
        self._under_way.append(_SentRequest(request, self.cluster.start(request), deadline))

    def finish(self) -> None:
        """Wait until everything is stored.

        Raises:
            CometError: a request was not stored in its time.
        """
        while self._under_way:
            self._wait_oldest()

    def give_up(self) -> None:
        """Wait for what is under way, and send nothing again: the task has failed."""
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
                "sent again: %d %s for %s: %s",
                request.rows, plural(request.rows, "row"), request.place.queue or request.place.topic, error,
            )  # fmt: skip
            sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            outcomes = self.cluster.start(request)

    def _settle(self, request: Request, outcomes: Future[Outcomes]) -> dict[int, CometError]:
        """Wait for the outcomes and note what is stored; gives the errors, by their places in the request."""
        failures: dict[int, CometError] = {}
        for index, outcome in enumerate(outcomes.result()):
            if isinstance(outcome, CometError):
                failures[index] = outcome
            elif outcome.status in _UNSAFE:
                failures[index] = SendFailed(f"stored at {outcome.queue}, but {outcome.status}")
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
            raise TopicNotFound(f"topic {topic!r} has no queue that can be written")
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
                f"brokerName {target.broker_name!r} and queueId {target.queue_id} fit "
                f"{len(fitting)} writable queues of {target.topic}; they must name one"
            )
        return fitting[0]


def _may_come_later(error: CometError) -> bool:
    if isinstance(error, BrokerRefused):
        return error.code in _LATER_CODES
    return isinstance(error, NetError | SendFailed)
