"""The blocking `Inspector`: made by tools/sync_facade.py from cometmq.client.inspector; do not edit."""

from types import TracebackType
from typing import Self

from cometmq.client.explain import Explanation
from cometmq.client.inspector import AsyncInspector
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.portal import portal
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.model.queue import MessageQueue


class Inspector:
    """Asks a cluster. Its methods raise NetError, BrokerRefused and CodecError besides what they name.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: times.

    Raises:
        SettingsError: a nameserver address cannot be read.
    """

    def __init__(
        self, nameservers: str | None = None, *, settings: ClientSettings | None = None
    ) -> None:
        self._portal = portal()
        self._client = AsyncInspector(nameservers, settings=settings)

    def __repr__(self) -> str:
        """Client and nameservers."""
        return repr(self._client).replace("Async", "", 1)

    def start(self) -> None:
        """Begin; nothing is connected before the first call."""
        self._portal.call(self._client.start)

    def close(self) -> None:
        """Close the connections."""
        self._portal.call(self._client.close)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def explain(self, message_id: str, group: str, *, topic: str | None = None) -> Explanation:
        """Why a group has not consumed a message.

        Args:
            message_id: the id that its producer gave it, or the offset message id.
            group: the consumer group.
            topic: of the message; None: the topics that the group's members want.

        Raises:
            MessageError: nobody is there to say the topics, and none is named.
            TopicNotFound: the nameserver does not know the topic.
        """
        result: Explanation = self._portal.call(
            self._client.explain, message_id, group, topic=topic
        )
        return result

    def conflicts(self, group: str | None = None) -> list[Conflict]:
        """Members that contradict each other, of one group or of all; Java's brokers refuse to say."""
        result: list[Conflict] = self._portal.call(self._client.conflicts, group)
        return result

    def queue_locks(self, group: str | None = None) -> dict[tuple[str, MessageQueue], str]:
        """Who holds queues for consumption in order, by group and queue; not of Java's brokers."""
        result: dict[tuple[str, MessageQueue], str] = self._portal.call(
            self._client.queue_locks, group
        )
        return result

    def resume_transaction(self, offset_message_id: str) -> None:
        """Have a half message checked again that was discarded after too many checks.

        Args:
            offset_message_id: of the message in TRANS_CHECK_MAX_TIME_TOPIC.
        """
        self._portal.call(self._client.resume_transaction, offset_message_id)
