"""Finds out why something does not move: messages that are not consumed, groups at odds, lost transactions.

    async with AsyncInspector("127.0.0.1:9876") as inspector:
        print((await inspector.explain(message_id, "billing")).answer)

`cometmq.client.Inspector` is the same for threads.

Next: cometmq.client.explain
"""

from types import TracebackType
from typing import Self

from cometmq.client.explain import Explainer, Explanation
from cometmq.client.hub import Hub
from cometmq.client.settings import ClientSettings
from cometmq.codec.bodies.cluster import decode_cluster_info
from cometmq.codec.bodies.conflicts import Conflict, decode_conflicts
from cometmq.codec.bodies.lock import decode_locks_file
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.client import MaybeGroupRequest
from cometmq.codec.headers.transaction import ResumeCheck
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import decode_message_id
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.names import TRANS_CHECK_MAX_TIME_TOPIC
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
        for answer in await self._ask_all(RequestCode.GET_GROUP_CONFLICTS, group):
            found.update(dict.fromkeys(decode_conflicts(answer.body)))
        return list(found)

    async def queue_locks(
        self, group: str | None = None
    ) -> dict[tuple[str, MessageQueue], str]:
        """Who holds queues for consumption in order, by group and queue; not of Java's brokers."""
        found: dict[tuple[str, MessageQueue], str] = {}
        for answer in await self._ask_all(RequestCode.GET_QUEUE_LOCKS, group):
            found.update(decode_locks_file(answer.body))
        return found

    async def resume_transaction(self, offset_message_id: str) -> None:
        """Have a half message checked again that was discarded after too many checks.

        Args:
            offset_message_id: of the message in TRANS_CHECK_MAX_TIME_TOPIC.
        """
        host, _offset = decode_message_id(offset_message_id)
        header = ResumeCheck(offset_message_id, TRANS_CHECK_MAX_TIME_TOPIC)
        command = Command(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields=encode_fields(header))
        await self._hub.ask(decode_host(host), command)

    async def _ask_all(self, code: RequestCode, group: str | None) -> list[Command]:
        answer = await self._hub.nameservers.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        command = Command(code, fields=encode_fields(MaybeGroupRequest(group)))
        addresses = [
            address
            for broker in decode_cluster_info(answer.body).brokers.values()
            if (address := broker.master_or_any()) is not None
        ]
        return [await self._hub.ask(address, command) for address in addresses]
