"""The cluster that a sink writes, by way of the client: sends on the process's one loop.

Next: cometmq.client.producer.sender
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from cometmq.client import ProducerSettings, SendResult
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.identity import make_unique_ids
from cometmq.client.producer.encoded_send import EncodedSend
from cometmq.client.producer.producer_member import ProducerMember
from cometmq.client.producer.queue_selector import only
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.sync.portal import portal
from cometmq.codec.properties import encode_properties
from cometmq.codec.send_text import front_text, json_text, middle_text
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError
from cometmq.model.flags import TRANSACTION_PREPARED
from cometmq.model.names import DEFAULT_TOPIC
from cometmq.model.namespace import namespace_of
from cometmq.model.queue import MessageQueue
from cometmq.spark.pool import shared
from cometmq.spark.sink.batches import Request, RowBatch, Single
from cometmq.spark.sink.client_endings import ClientEndings
from cometmq.spark.sink.cluster import SinkCluster
from cometmq.spark.sink.identity import FreshIds
from cometmq.spark.sink.settings import SinkSettings

_ID_AT = len(keys_of.UNIQ_KEY) + 1
_BATCH, _SINGLE = int(RequestCode.SEND_BATCH_MESSAGE), int(RequestCode.SEND_MESSAGE_V2)
# The broker stores a batch's own properties behind those of each message, where they win. Without
# an id among them, every message keeps its own.
_BATCH_PROPERTIES = json_text(encode_properties({keys_of.WAIT: "true"}).decode())


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
        credentials=settings.credentials,
        tls=settings.tls,
    )


class ClientSinkCluster:
    """A cluster as the sink sees it (`cluster.SinkCluster`), over one client.

    Args:
        settings: nameservers, group and times.
    """

    def __init__(self, settings: SinkSettings) -> None:
        limits = limits_of(settings)
        self._instance = instance = ClientInstance(";".join(settings.name_servers), limits)
        ids = make_unique_ids(instance.ip, instance.clock, instance.chance)
        self.ids = FreshIds(ids.next_id)
        # Above this class topics have their short names; the group is whole already.
        self._namespace = namespace_of(settings.namespace)
        self.endings = ClientEndings(instance, settings.group, self._namespace)
        self._users = 0
        self._sys_flag = TRANSACTION_PREPARED if settings.is_transactional else 0
        self._group = settings.group
        self._fronts: dict[tuple[int, str], str] = {}
        self._limits = limits
        self._member = ProducerMember(settings.group)
        portal().call(self._open, settings)

    async def _open(self, settings: SinkSettings) -> None:
        await self._instance.start()
        self._sender = EncodedSender(self._instance, self._limits)
        # Who joins the group is asked about its transactions, and only the driver knows them.
        if not settings.is_transactional:
            await self._instance.join(self._member)

    @property
    def is_busy(self) -> bool:
        """Whether a task is writing."""
        return self._users > 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """A task is writing, maybe with long pauses: nobody may close this meanwhile."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    def close(self) -> None:
        """Close the connections."""
        portal().call(self._close)

    async def _close(self) -> None:
        self._sender.close()
        await self._instance.leave(self._member)
        await self._instance.close()

    def writable_queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that take messages."""
        queues: Sequence[MessageQueue] = portal().call(
            self._sender.queues, self._namespace.wrap(topic)
        )
        return queues

    def start(self, request: Request) -> "UnderWay":
        """Start to send."""
        under_way: UnderWay = portal().call(self._start, request)
        return under_way

    def _start(self, request: Request) -> "UnderWay":
        topic, queue = self._namespace.wrap(request.place.topic), request.place.queue
        if isinstance(request, RowBatch):
            parcels = [self._batch(topic, request)]
        else:
            parcels = [self._single(topic, each) for each in request.messages]
        pick = None if queue is None else only(queue)
        sent = [self._sender.start(parcel, pick, None) for parcel in parcels]
        return UnderWay(sent)

    def _batch(self, topic: str, batch: RowBatch) -> EncodedSend:
        middle = middle_text(
            batch.sys_flag, self._instance.clock.now_ms(), 0, _BATCH_PROPERTIES, ',"m":"true"'
        )
        return EncodedSend(topic, self._front(_BATCH, topic), middle, batch.body, "")

    def _single(self, topic: str, single: Single) -> EncodedSend:
        # `encode` puts the id first: UNIQ_KEY 01 id 02.
        message_id = single.properties[_ID_AT : single.properties.index("\2")]
        middle = middle_text(
            single.sys_flag | self._sys_flag,
            self._instance.clock.now_ms(),
            single.flag,
            json_text(single.properties),
        )
        return EncodedSend(topic, self._front(_SINGLE, topic), middle, single.body, message_id)

    def _front(self, code: int, topic: str) -> str:
        front = self._fronts.get((code, topic))
        if front is None:
            queues = self._limits.default_topic_queues
            front = front_text(code, self._group, topic, DEFAULT_TOPIC, queues)
            self._fronts[code, topic] = front
        return front


class UnderWay(NamedTuple):
    """A request on its way (`cluster.Sending`)."""

    sent: list[asyncio.Future[SendResult]]

    def outcomes(self) -> Sequence[SendResult | CometError]:
        """Wait for the broker's word.

        Raises:
            BaseException: an error that is none of ours.
        """
        outcomes: list[SendResult | CometError] = portal().call(self._all)
        for each in outcomes:
            if not isinstance(each, SendResult | CometError):
                raise each
        return outcomes

    async def _all(self) -> list[SendResult | BaseException]:
        return await asyncio.gather(*self.sent, return_exceptions=True)
