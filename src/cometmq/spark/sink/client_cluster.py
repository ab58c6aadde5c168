"""The cluster that a sink writes, by way of the client: sends on the process's one loop.

Next: cometmq.client.producer
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from cometmq.client import AsyncProducer, ProducerSettings
from cometmq.client.hub import Hub
from cometmq.client.identity import make_unique_ids
from cometmq.client.results import SendResult
from cometmq.client.sync.portal import portal
from cometmq.codec.properties import encode_properties
from cometmq.model import properties as keys_of
from cometmq.model.queue import MessageQueue
from cometmq.spark.pool import shared
from cometmq.spark.sink.cluster import SinkCluster
from cometmq.spark.sink.settings import SinkSettings

# The broker stores a batch's own properties behind those of each message, where they win. Without
# an id among them, every message keeps its own.
_BATCH_PROPERTIES = encode_properties({keys_of.WAIT: "true"}).decode()


def sink_cluster(settings: SinkSettings) -> SinkCluster:
    """The cluster that a sink writes, connected."""
    key = ("sink", settings.name_servers, settings.group, settings.timeout_ms, settings.retries)
    return shared(key, lambda: ClientSinkCluster(settings))


class ClientSinkCluster:
    """A cluster as the sink sees it (`cluster.SinkCluster`), over one producer.

    Args:
        settings: nameservers, group and times.
    """

    def __init__(self, settings: SinkSettings) -> None:
        limits = ProducerSettings(
            send_timeout_ms=settings.timeout_ms,
            retries=settings.retries,
            # The broker's own limit decides, and its answer names it.
            body_size_max=2**31 - 1,
        )
        hub = Hub(";".join(settings.name_servers), limits)
        self._producer = AsyncProducer(group=settings.group, settings=limits, hub=hub)
        self._ids = make_unique_ids(hub.ip, hub.clock, hub.chance)
        portal().call(hub.start)
        portal().call(self._producer.start)

    def new_message_id(self) -> str:
        """An id that no other message has."""
        return self._ids.next_id()

    def writable_queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that take messages."""
        queues: list[MessageQueue] = portal().call(self._producer.queues, topic)
        return queues

    def send_batch(self, topic: str, queue: MessageQueue | None, body: bytes) -> "UnderWay":
        """Start to send a batch."""
        under_way: UnderWay = portal().call(self._start, topic, queue, body)
        return under_way

    def _start(self, topic: str, queue: MessageQueue | None, body: bytes) -> "UnderWay":
        return UnderWay(
            self._producer.send_encoded(topic, queue, body, properties=_BATCH_PROPERTIES)
        )


class UnderWay(NamedTuple):
    """A batch on its way (`cluster.Sending`): not a future itself, or the portal would wait."""

    sending: asyncio.Future[SendResult]

    def result(self) -> SendResult:
        """Wait for the broker's word."""
        result: SendResult = portal().call(self._given)
        return result

    def _given(self) -> asyncio.Future[SendResult]:
        return self.sending
