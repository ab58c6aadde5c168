"""Access of the Spark sink to a cluster; tasks of a process with equal settings share a client. Rows are sent encoded."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from cometmq import ProducerSettings, SendResult
from cometmq.connect import EncodedBatch, EncodedMessage, EncodedProducer
from cometmq.model.errors import CometError
from cometmq.model.flags import TRANSACTION_PREPARED
from cometmq.model.queue import MessageQueue
from cometmq.spark.pool import shared
from cometmq.spark.sink.batches import Request, RowBatch
from cometmq.spark.sink.identity import FreshIds
from cometmq.spark.sink.settings import SinkSettings

# One outcome for a batch, or one for each single row: where it was stored, or the error.
Outcomes = list[SendResult | CometError]


def limits_of(settings: SinkSettings) -> ProducerSettings:
    """Return the client's ProducerSettings for a write; the broker, not the client, limits the size of bodies."""
    return ProducerSettings(
        send_timeout_ms=settings.timeout_ms,
        request_timeout_ms=settings.timeout_ms,
        retries=settings.retries,
        # Leave the limit to the broker, whose answer names it.
        body_size_max=2**31 - 1,
        namespace=settings.namespace,
        credentials=settings.credentials,
        tls=settings.tls,
    )


class SinkCluster:
    """Access of the sink to a cluster by one producer of the client.

    Attributes:
        ids: Generator of unique message ids.
        resolver: Client that commits half messages, rolls them back, and finds committed ones.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self._producer = EncodedProducer(
            ";".join(settings.name_servers),
            group=settings.group,
            settings=limits_of(settings),
            # Brokers send transaction checks to members of the group, and only the driver can answer them.
            joins=not settings.is_transactional,
        )
        self.ids = FreshIds(self._producer.next_id)
        self.resolver = self._producer
        self._users = 0
        self._sys_flag = TRANSACTION_PREPARED if settings.is_transactional else 0
        self._producer.start()

    @property
    def is_busy(self) -> bool:
        """Whether a task is writing, so that the pool must not close this client."""
        return self._users > 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the pool from closing this client while a task writes in the context, even during long pauses."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    def close(self) -> None:
        """Close the producer and its connections."""
        self._producer.close()

    def writable_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues to which messages of a topic may be sent, with the names that brokers use."""
        return self._producer.queues(topic)

    def start(self, request: Request) -> Future[Outcomes]:
        """Start sending a request; the future has a SendResult or error for a batch, or one for each single row."""
        topic, queue = request.place
        messages: Sequence[EncodedMessage | EncodedBatch]
        if isinstance(request, RowBatch):
            messages = [EncodedBatch(topic, request.body, request.sys_flag)]
        else:
            messages = [
                EncodedMessage(
                    topic, each.body, each.properties, each.flag, each.sys_flag | self._sys_flag
                )
                for each in request.messages
            ]
        return self._producer.send_each_async(messages, queue=queue)


def sink_cluster(settings: SinkSettings) -> SinkCluster:
    """Return a started client of a write's cluster; tasks of this process with equal settings for it share it."""
    key = (
        "sink", settings.name_servers, settings.namespace, settings.group, settings.timeout_ms,
        settings.retries, settings.is_transactional, settings.credentials, settings.tls,
    )  # fmt: skip
    return shared(key, lambda: SinkCluster(settings))
