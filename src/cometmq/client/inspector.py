"""Finds out why something does not move: messages that are not consumed, groups at odds, lost transactions.

    async with AsyncInspector("127.0.0.1:9876") as inspector:
        print((await inspector.explain(message_id, "billing")).answer)

`cometmq.client.Inspector` is the same for threads.

Next: cometmq.client.explain
"""

from types import TracebackType
from typing import Self

from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.explain import Explainer, Explanation
from cometmq.client.hub import Hub
from cometmq.client.settings import ClientSettings
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import decode_message_id
from cometmq.model.queue import MessageQueue


class AsyncInspector:
    """Asks a cluster. Its methods raise NetError, BrokerRefused and CodecError besides what they name.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: times.
        hub: share another client's connections; its owner closes it.

    Raises:
        SettingsError: a nameserver address cannot be read.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        settings: ClientSettings | None = None,
        hub: Hub | None = None,
    ) -> None:
        self._hub = hub or Hub(nameservers, settings)
        self._owns_hub = hub is None
        self._api = BrokerApi(self._hub)
        self._explainer = Explainer(self._hub)

    def __repr__(self) -> str:
        """Client and nameservers."""
        return f"<{type(self).__name__} of {self._hub!r}>"

    async def start(self) -> None:
        """Begin; nothing is connected before the first call."""
        await self._hub.start()

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_hub:
            await self._hub.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    async def explain(
        self, message_id: str, group: str, *, topic: str | None = None
    ) -> Explanation:
        """Why a group has not consumed a message.

        Args:
            message_id: the id that its producer gave it, or the offset message id.
            group: the consumer group.
            topic: of the message; None: the topics that the group's members want.

        Raises:
            MessageError: nobody is there to say the topics, and none is named.
            TopicNotFound: the nameserver does not know the topic.
        """
        return await self._explainer.explain(message_id, group, topic)

    async def conflicts(self, group: str | None = None) -> list[Conflict]:
        """Members that contradict each other, of one group or of all; Java's brokers refuse to say."""
        found: dict[Conflict, None] = {}
        addresses = (await self._hub.nameserver_api.readable_brokers()).values()
        for conflicts in all_of(
            await side_by_side(lambda address: self._api.conflicts(address, group), addresses)
        ):
            found.update(dict.fromkeys(conflicts))
        return list(found)

    async def queue_locks(
        self, group: str | None = None
    ) -> dict[tuple[str, MessageQueue], str]:
        """Who holds queues for consumption in order, by group and queue; not of Java's brokers."""
        found: dict[tuple[str, MessageQueue], str] = {}
        addresses = (await self._hub.nameserver_api.readable_brokers()).values()
        for locks in all_of(
            await side_by_side(lambda address: self._api.queue_locks(address, group), addresses)
        ):
            found.update(locks)
        return found

    async def resume_transaction(self, offset_message_id: str) -> None:
        """Have a half message checked again that was discarded after too many checks.

        Args:
            offset_message_id: of the message in TRANS_CHECK_MAX_TIME_TOPIC.
        """
        host, _offset = decode_message_id(offset_message_id)
        await self._api.resume_check(decode_host(host), offset_message_id)
