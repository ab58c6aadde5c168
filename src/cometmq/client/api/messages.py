"""Requests about single messages: find by key or id, read at a place, recall a delayed one."""

from dataclasses import dataclass

from cometmq.client.api.asking import BrokerAsker
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.query import QueryMessageRequest, ViewMessageRequest
from cometmq.codec.headers.recall import RecallRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused, CodecError

ALL_TIME = (1 << 63) - 1  # Long.MAX_VALUE: until now, and whatever clocks say.


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The records that a broker's index gave for a key.

    Attributes:
        records: bytes of the messages, one behind the other; some may be of another key with its hash.
        indexed_until_ms: messages stored later, ms since 1970, may not be in the index yet; 0 where
            the broker does not say it.
    """

    records: bytes
    indexed_until_ms: int


class MessageApi:
    """Sends requests about messages to one broker; raises BrokerRefused, NetError and CodecError."""

    def __init__(self, asks: BrokerAsker) -> None:
        """Use these connections."""
        self._asks = asks

    async def find(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        count_max: int,
        begin_ms: int = 0,
        end_ms: int = ALL_TIME,
        is_id: bool = False,
    ) -> FoundRecords | None:
        """Look a key, or a unique id, up in the index of a broker; None where nothing is found.

        Args:
            address: the broker's.
            topic: of the messages.
            key: one of their keys, or their unique id.
            count_max: most messages; a broker gives at most 64 (`maxMsgsNumBatch`).
            begin_ms: stored at that time or later, ms since 1970.
            end_ms: stored at that time or earlier.
            is_id: whether `key` is a unique id.
        """
        unique = "true" if is_id else None
        header = QueryMessageRequest(topic, key, count_max, begin_ms, end_ms, unique)
        command = Command(RequestCode.QUERY_MESSAGE, fields=encode_fields(header))
        try:
            answer = await self._asks.ask(address, command)
        except BrokerRefused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        until = answer.fields.get("indexLastUpdateTimestamp", "0")
        try:
            return FoundRecords(answer.body, int(until))
        except ValueError:
            raise CodecError(
                f"the answer of {address} to QUERY_MESSAGE: {until!r:.40} is no time of an index"
            ) from None

    async def view(self, address: str, commitlog_offset: int) -> bytes:
        """The record at a place of a broker's log."""
        header = ViewMessageRequest(commitlog_offset)
        command = Command(RequestCode.VIEW_MESSAGE_BY_ID, fields=encode_fields(header))
        return (await self._asks.ask(address, command)).body

    async def recall(self, address: str, topic: str, handle: str) -> str:
        """Take back a message that waits for its time; gives its message id."""
        fields = encode_fields(RecallRequest(topic, handle))
        command = Command(RequestCode.RECALL_MESSAGE, fields=fields)
        return (await self._asks.ask(address, command)).fields.get("msgId", "")
