"""The cluster that a sink writes, by way of the client's encoded producer: shared by the tasks of a process."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from cometmq.client import (
    EncodedBatch,
    EncodedMessage,
    EncodedProducer,
    ProducerSettings,
)
from cometmq.model.flags import TRANSACTION_PREPARED
from cometmq.model.queue import MessageQueue
from cometmq.spark.pool import shared
from cometmq.spark.sink.batches import Request, RowBatch
from cometmq.spark.sink.cluster import Outcomes, SinkCluster
from cometmq.spark.sink.identity import FreshIds
from cometmq.spark.sink.settings import SinkSettings


def sink_cluster(settings: SinkSettings) -> SinkCluster:
    """The cluster that a sink writes, connected."""
    key = (
        "sink", settings.name_servers, settings.namespace, settings.group, settings.timeout_ms,
        settings.retries, settings.is_transactional, settings.credentials, settings.tls,
    )  # fmt: skip
    return shared(key, lambda: ClientSinkCluster(settings))


def limits_of(settings: SinkSettings) -> ProducerSettings:
    """The client's times and tries for a write."""
    return ProducerSettings(
        send_timeout_ms=settings.timeout_ms,
        request_timeout_ms=settings.timeout_ms,
        retries=settings.retries,
        # The broker's own limit decides, and its answer names it.
        body_size_max=2**31 - 1,
        namespace=settings.namespace,
        credentials=settings.credentials,
        tls=settings.tls,
    )


class ClientSinkCluster:
    """A cluster as the sink sees it (`cluster.SinkCluster`), over one client.

    Args:
        settings: nameservers, group and times.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self._producer = EncodedProducer(
            ";".join(settings.name_servers),
            group=settings.group,
            settings=limits_of(settings),
            # Who joins the group is asked about its transactions, and only the driver knows them.
            joins=not settings.is_transactional,
        )
        self.ids = FreshIds(self._producer.next_id)
        self.resolver = self._producer
        self._users = 0
        self._sys_flag = TRANSACTION_PREPARED if settings.is_transactional else 0
        self._producer.start()

    @property
    def is_busy(self) -> bool:
        """Whether a task is writing."""
        return self._users > 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the cluster open while a task writes, maybe with long pauses."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    def close(self) -> None:
        """Close the connections."""
        self._producer.close()

    def writable_queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that take messages."""
        return self._producer.queues(topic)

    def start(self, request: Request) -> Future[Outcomes]:
        """Start to send a request; the future has the outcome of each of its sends."""
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
