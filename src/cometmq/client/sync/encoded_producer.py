"""The blocking `EncodedProducer`: made by tools/sync_facade.py from cometmq.client.producer.encoded_producer; do not edit."""

import concurrent.futures
from collections.abc import Callable, Sequence

from cometmq.client.api.transactions import HalfMessage
from cometmq.client.producer.check_answers import HalfJudge
from cometmq.client.producer.encoded_producer import (
    AsyncEncodedProducer,
)
from cometmq.client.producer.encoded_send import EncodedBatch, EncodedMessage
from cometmq.client.producer.transactions import TransactionState
from cometmq.client.results import SendResult
from cometmq.client.settings import ProducerSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue


class EncodedProducer(BlockingGroupClient[AsyncEncodedProducer]):
    """Sends messages that were encoded already, and ends half messages of its group.

    Sends that are under way when it is closed fail.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: its producer group.
        settings: namespace, times, retries and sizes.
        joins: be a member of the group; False: brokers ask others of the group about its half messages.
        mark: with `judge`: the property of the half messages that it knows of.
        judge: tells what became of such a half message; called in a thread of its own.

    Raises:
        SettingsError: a nameserver address cannot be read.
        RequestError: the group's name is illegal.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        settings: ProducerSettings | None = None,
        joins: bool = True,
        mark: str = "",
        judge: HalfJudge | None = None,
    ) -> None:
        super().__init__(
            AsyncEncodedProducer(
                nameservers, group=group, settings=settings, joins=joins, mark=mark, judge=judge
            )
        )

    @property
    def next_id(self) -> Callable[[], str]:
        """Makes, when it is called, an id that no other message has; from any thread."""
        return self._client.next_id

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of this topic may go to, as brokers name them.

        Raises:
            TopicNotFound: there is no route, and brokers create no topics.
            ClientClosed, NetError, BrokerRefused: the nameservers cannot be asked.
        """
        result: list[MessageQueue] = self._portal.call(self._client.queues, topic)
        return result

    def send_each(
        self,
        messages: Sequence[EncodedMessage | EncodedBatch],
        *,
        queue: MessageQueue | None = None,
    ) -> list[SendResult | CometError]:
        """Send messages and batches side by side: the result of each in its place, or why there is none.

        Args:
            messages: each a request of its own.
            queue: the very queue they must go to; then each is tried once only.

        Raises:
            ClientClosed: not started, or closed.
        """
        result: list[SendResult | CometError] = self._portal.call(
            self._client.send_each, messages, queue=queue
        )
        return result

    def send_each_async(
        self,
        messages: Sequence[EncodedMessage | EncodedBatch],
        *,
        queue: MessageQueue | None = None,
    ) -> concurrent.futures.Future[list[SendResult | CometError]]:
        """`send_each` without waiting: the future gets its result or its error.

        Raises:
            ClientClosed: called from an async listener, or in a process forked since.
        """
        result: concurrent.futures.Future[list[SendResult | CometError]] = self._portal.start(
            self._client.send_each, messages, queue=queue
        )
        return result

    def end(
        self,
        half_messages: Sequence[HalfMessage],
        state: TransactionState,
        *,
        late: bool = False,
    ) -> list[CometError | None]:
        """Commit half messages or roll them back, side by side: nothing for each, or why it is not ended.

        Args:
            half_messages: of this producer's group.
            state: COMMIT or ROLLBACK.
            late: as if a check had asked, so that no broker minds how old they are.

        Raises:
            ClientClosed: not started, or closed.
        """
        result: list[CometError | None] = self._portal.call(
            self._client.end, half_messages, state, late=late
        )
        return result

    def committed(self, half_messages: Sequence[HalfMessage]) -> list[bool]:
        """Whether each half message is there as a message that consumers see.

        Raises:
            ClientClosed: not started, or closed.
            CometError: a broker cannot be asked.
        """
        result: list[bool] = self._portal.call(self._client.committed, half_messages)
        return result
