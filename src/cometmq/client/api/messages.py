"""Requests about messages: find them by key or id, read one at a physical offset, cancel a timed one."""

from dataclasses import dataclass

from cometmq.client.api.asking import BrokerRequests, unless
from cometmq.codec.headers.query import QueryMessageRequest, ViewMessageRequest
from cometmq.codec.headers.send import RecallRequest
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError
from cometmq.model.text import in_quotes

ALL_TIME = (1 << 63) - 1  # Long.MAX_VALUE: no upper limit, regardless of clocks.


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The records that a broker's index has for a key.

    Attributes:
        records: Concatenated records; some may belong to another key with the same hash.
        indexed_until_ms: Messages stored after this time, ms since 1970, may not be in the index yet; 0 if not reported.
    """

    records: bytes
    indexed_until_ms: int


class MessageApi(BrokerRequests):
    """Sends requests about messages to one broker; raises BrokerRefused, NetError and CodecError."""

    async def find(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        max_count: int,
        begin_ms: int = 0,
        end_ms: int = ALL_TIME,
        is_id: bool = False,
    ) -> FoundRecords | None:
        """Return the newest records that a broker's index has for a key or unique id; None if it has none.

        Args:
            address: Address of the broker.
            topic: Topic of the messages.
            key: A key of the messages, or their unique id.
            max_count: Maximum number of messages; a broker's own limit is 64 by default (`maxMsgsNumBatch`).
            begin_ms: Only messages stored since about this time, ms since 1970.
            end_ms: Only messages stored until about this time.
            is_id: Whether `key` is a unique id; a broker then ignores `max_count`, and CometMQ searches 10 min further.
        """
        unique = "true" if is_id else None
        header = QueryMessageRequest(topic, key, max_count, begin_ms, end_ms, unique)
        asked = self._ask(address, RequestCode.QUERY_MESSAGE, header)
        answer = await unless((ResponseCode.QUERY_NOT_FOUND,), asked)
        if answer is None:
            return None
        until = answer.fields.get("indexLastUpdateTimestamp", "0")
        try:
            return FoundRecords(answer.body, int(until))
        except ValueError:
            raise CodecError(
                f"the answer of {address} to QUERY_MESSAGE has the indexLastUpdateTimestamp "
                f"{in_quotes(until, 40)}, which is not a number"
            ) from None

    async def view(self, address: str, commitlog_offset: int) -> bytes:
        """Return the encoded record at a physical offset of a broker's commit log; raise BrokerRefused if there is none."""
        header = ViewMessageRequest(commitlog_offset)
        return (await self._ask(address, RequestCode.VIEW_MESSAGE_BY_ID, header)).body

    async def recall(self, address: str, topic: str, handle: str) -> str:
        """Have a broker cancel a timed message by its recall handle; return the message id.

        The broker does not check whether the message waits, but refuses (BrokerRefused) once its time has passed.
        """
        header = RecallRequest(topic, handle)
        answer = await self._ask(address, RequestCode.RECALL_MESSAGE, header)
        return answer.fields.get("msgId", "")
