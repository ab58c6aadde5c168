"""Stores the messages of gRPC calls through the send service of a broker in this process.

Messages of calls that arrive in one iteration of the loop are stored together.
"""

import asyncio

from cometmq.broker.send.sends import Sends
from cometmq.codec.headers.send import SendRequestV2
from cometmq.codec.host import encode_host
from cometmq.model.java_hash import java_hash
from cometmq.proxy.backend import SendEntry
from cometmq.proxy.queue_choice import queue_of_group
from cometmq.proxy.routed_topic import RoutedTopic
from cometmq.proxy.v2.sent_messages import SentMessage
from cometmq.proxy.v2.statuses import status_of_durability
from cometmq.store.appender import PutResult
from cometmq.store.positions import Durability

# An entry with the handle by which its message can be recalled, if there is one.
_Sent = tuple[SendEntry, str | None]


class _CallOrigin:
    """The address of the client that sends a message, in the forms that the broker's checks need."""

    __slots__ = ("address", "host")

    def __init__(self, address: str) -> None:
        self.address = address
        self.host = encode_host(address)


class GrpcSends:
    """Puts messages into the broker's queue of sends, and gets their results as a `SendCaller`."""

    def __init__(self, sends: Sends, broker_name: str) -> None:
        self._sends = sends
        self._broker_name = broker_name
        self._is_queued = False  # Whether sends wait for `_store`.
        self._turn = 0

    def put(
        self, sent: SentMessage, topic: RoutedTopic, address: str, entry: SendEntry
    ) -> None:
        """Queue a message from a client's address to be stored soon; raise RequestError if the broker refuses it."""
        text = "".join([f"{name}\1{value}\2" for name, value in sent.properties.items()])
        request = SendRequestV2(
            topic.name, topic.name, self._queue(topic, sent.group), sent.sys_flag,
            sent.born_ms, 0, properties=text,
        )  # fmt: skip
        admitted = self._sends.admission.admit(request, sent.body, _CallOrigin(address))
        if not self._is_queued:
            self._is_queued = True
            asyncio.get_running_loop().call_soon(self._store)
        self._sends.put(admitted, (entry, admitted.recall_handle), self)

    def _queue(self, topic: RoutedTopic, group: str | None) -> int:
        count = topic.brokers[0].write_queues
        if group is not None:
            return queue_of_group(java_hash(group), count)
        self._turn += 1
        return self._turn % count

    def _store(self) -> None:
        self._is_queued = False
        self._sends.store()
        self._sends.written()

    def stored(
        self,
        sends: list[_Sent],
        results: list[PutResult],
        durability: Durability,
        *,
        has_waited: bool,
    ) -> None:
        """Enter the results of stored messages into the answers to their calls."""
        found, name = status_of_durability(durability), self._broker_name
        for (entry, recall_handle), result in zip(sends, results, strict=True):
            entry.stored(found, result[0], result[1], name, recall_handle)

    def refused(self, sends: list[_Sent], error: BaseException) -> None:
        """Enter an error for messages that were not stored into the answers to their calls."""
        for entry, _ in sends:
            entry.refused(error)
