"""Search for the message traces that producers and consumers wrote to the trace topic."""

from cometmq.client.admin.queries import MessageQueries
from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.trace import Trace, TraceKind, decode_traces

_RECORDS_MAX = 64  # Maximum number of trace messages that a broker returns (`maxMsgsNumBatch`).
# Order of record kinds; older clients write no time for the end of a listener call.
_ORDER = {TraceKind.PUB: 0, TraceKind.SUB_BEFORE: 1, TraceKind.SUB_AFTER: 2}


class MessageTraces:
    """Finds the trace records of a message by its id, for one client."""

    def __init__(self, instance: ClientInstance) -> None:
        self._queries = MessageQueries(instance)

    async def of(self, message_id: str, topic: str) -> list[Trace]:
        """Return a message's trace records: sends, ends of transactions and recalls, then each listener call with its end.

        `topic` is the trace topic; at most 64 of the newest trace messages there that have the id as a key are read.

        Raises TopicNotFound if the trace topic does not exist, CodecError if a record or an answer is malformed, and
        NetError or BrokerRefused if the cluster cannot be queried.
        """
        held = await self._queries.by_key(
            topic, message_id, count_max=_RECORDS_MAX, begin_ms=0, end_ms=None
        )
        found = dict.fromkeys(
            record
            for message in held
            for record in decode_traces(bytes(message.body))
            if record.message_id == message_id
        )
        began = {
            record.request_id: record.time_ms
            for record in found
            if record.kind is TraceKind.SUB_BEFORE
        }

        def place(record: Trace) -> tuple[int, int, str, int]:
            kind = _ORDER.get(record.kind, 0)
            time_ms = began.get(record.request_id, record.time_ms)
            return min(kind, 1), time_ms, record.request_id, kind

        return sorted(found, key=place)
