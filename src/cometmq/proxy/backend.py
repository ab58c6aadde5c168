"""The interface between the methods of the proxy and brokers: one in this process (`proxy.local_backend`), or a cluster.

Requests and answers are the values of the broker's own services. Steps end without a wait if what they return is known.
"""

from collections.abc import Sequence
from typing import Protocol

from cometmq.broker.loop.caller import Caller
from cometmq.broker.pop.popping import PopResult
from cometmq.broker.pull.pulls import PullAnswer
from cometmq.codec.bodies.heartbeat import Heartbeat
from cometmq.codec.headers.offset import QueryConsumerOffset, UpdateConsumerOffset
from cometmq.codec.headers.pop import PopRequest
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.headers.send import RecallRequest
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.codec.receipt import Receipt
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.rights import Asker
from cometmq.proxy.routed_topic import RoutedTopic
from cometmq.proxy.services.clients import GrpcClient
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.sent_messages import SendLimits, SentMessage
from cometmq.steps.steps import Steps


class SendEntry(Protocol):
    """The place of a message in the answer to its call; gets its result once, from one of these methods.

    Attributes:
        deadline: Deadline of the call, monotonic seconds; None without one.
    """

    @property
    def deadline(self) -> float | None: ...  # noqa: D102

    def stored(
        self,
        status: pb.Status,
        queue_offset: int,
        physical_offset: int,
        broker_name: str,
        recall_handle: str | None,
    ) -> None:
        """Enter the place of a stored message; the status says whether it is confirmed."""

    def refused(self, error: BaseException) -> None:
        """Enter the error of a message that is not stored, or of which that is not known."""


class HiddenMessages(Protocol):
    """Popped messages that are hidden together, and whose invisible time can be changed without new handles."""

    @property
    def is_over(self) -> bool:
        """Whether none of them is hidden any more, as far as that is known."""

    def extend(self, invisible_ms: int) -> None:
        """Hide the messages for a time from now on, maybe later; CometError: they are hidden, but a restart would forget that."""

    def release(self) -> None:
        """Let those that are still hidden be delivered again soon."""


class Backend(Protocol):
    """The brokers behind the proxy.

    Everything raises ProxyRefusal, RequestError, or another CometError, which becomes the answer to the call.
    """

    @property
    def limits(self) -> SendLimits:
        """The limits for messages."""

    def topic(self, name: str) -> Steps[RoutedTopic]:
        """Return a topic with its queues; raise ProxyRefusal (TOPIC_NOT_FOUND) instead of creating it."""

    def group(self, name: str) -> Steps[GroupConfig]:
        """Return the settings of a consumer group, or those of a new one."""

    def broker(self, topic: str, named: str) -> Steps[str]:
        """Return the broker that a request for a topic names, or, if it names none, the topic's only one.

        Raises ProxyRefusal (BAD_REQUEST) if it is unknown.
        """

    def send(
        self, sent: SentMessage, topic: RoutedTopic, client: GrpcClient, entry: SendEntry
    ) -> None:
        """Store a message in a queue of a topic, soon; `entry` gets the result, unless this raises."""

    def pop(
        self, broker_name: str, request: PopRequest, caller: Caller[PopResult]
    ) -> Steps[PopResult | None]:
        """Return the result of a pop; None if the pop waits and `caller` is answered later."""

    def held(
        self, receipts: Sequence[Receipt], topic: str, group: str
    ) -> Sequence[HiddenMessages]:
        """Return what holds the messages of a pop with these receipts; less than all if some are not hidden any more."""

    def acknowledge(
        self, receipts: Sequence[Receipt], topic: str, group: str
    ) -> Steps[list[Exception | None]]:
        """Acknowledge messages of the requested topic; return the error of each, or None."""

    def change(
        self, receipt: Receipt, topic: str, group: str, invisible_ms: int
    ) -> Steps[Receipt]:
        """Hide a message for a time from now on; return its new receipt."""

    def bury(
        self, receipt: Receipt, physical_offset: int | None, topic: str, group: str
    ) -> Steps[None]:
        """Store a message as a dead letter of the group, then acknowledge it; `physical_offset`: its place, if known."""

    def end_transaction(
        self, broker_name: str, wanted: EndTransaction, asker: Asker
    ) -> Steps[object]:
        """Commit or roll back a half message; done when that is stored."""

    def recall(self, wanted: RecallRequest, client: GrpcClient) -> Steps[str]:
        """Cancel a timed message; return its message id."""

    def pull(
        self, broker_name: str, request: PullRequest, caller: Caller[PullAnswer]
    ) -> Steps[PullAnswer | None]:
        """Return the answer to a pull; None if it waits and `caller` is answered later."""

    def commit(self, broker_name: str, wanted: UpdateConsumerOffset) -> Steps[None]:
        """Commit the offset of a group in a queue."""

    def committed(self, broker_name: str, wanted: QueryConsumerOffset) -> Steps[int]:
        """Return the committed offset of a group in a queue; raise RequestError (QUERY_NOT_FOUND) without one."""

    def first_offset(self, queue: MessageQueue) -> Steps[int]:
        """Return the offset of the first message of a queue."""

    def end_offset(self, queue: MessageQueue) -> Steps[int]:
        """Return the offset after the last message of a queue."""

    def offset_by_time(self, queue: MessageQueue, time_ms: int) -> Steps[int]:
        """Return the offset of the first message stored at or after a time, ms since 1970, or the queue's end."""

    def register(
        self, heartbeat: Heartbeat, client: GrpcClient, asker: Asker
    ) -> Steps[object] | None:
        """Register a client in its groups; return steps that finish that, for which no call needs to wait, or None."""
