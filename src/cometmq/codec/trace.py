r"""Records of message traces, as clients write them into the trace topic.

| kind | fields, each ended by \x01, the last by \x02 |
| --- | --- |
| Pub | time, region, group, topic, message id, tags, keys, store host, body size, ms, message kind, offset message id, success |
| SubBefore | time, region, group, request id, message id, tries, keys |
| SubAfter | request id, message id, ms, success, keys, outcome, time, group |
| EndTransaction | time, region, group, topic, message id, tags, keys, store host, message kind, transaction id, state, from a check |
| Recall | time, region, group, topic, message id, success |

Missing tags and offset message ids are written as "null", as in Java. Readers accept older records, without Pub's offset
message id or the last fields of SubAfter or EndTransaction. Source: TraceDataEncoder of RocketMQ 5.3.3; docs/format/trace.md.
"""

from collections.abc import Iterable
from enum import IntEnum, StrEnum

from cometmq.model.errors import CodecError
from cometmq.model.frozen import dataclass
from cometmq.model.properties import split_keys
from cometmq.model.trace import FIELD_END, RECORD_END

_NULL = "null"


class TraceKind(StrEnum):
    """The kind of a message trace's record: a send, a consumption begun or ended, a transaction ended, or a recall."""

    PUB = "Pub"
    SUB_BEFORE = "SubBefore"
    SUB_AFTER = "SubAfter"
    END_TRANSACTION = "EndTransaction"
    RECALL = "Recall"


class TracedMessage(IntEnum):
    """The kind of a traced message (MessageType): NORMAL, HALF, COMMIT, DELAY or ORDER."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3
    ORDER = 4


class TraceOutcome(IntEnum):
    """The outcome of a listener call (ConsumeReturnType): SUCCESS, TIME_OUT, EXCEPTION, RETURN_NULL or FAILED."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One trace record; fields that its kind does not have keep their defaults.

    Attributes:
        kind: Event that is recorded.
        time_ms: Time of the event, usually of its start, ms since 1970.
        region: regionId of the broker.
        group: Producer or consumer group.
        keys: Keys of the message, separated by blanks.
        store_host: Address of the broker, "ip:port".
        body_size: Size of the body in bytes.
        took_ms: Duration of the send, or of the listener's call divided by its messages, ms.
        offset_message_id: Offset message id, which holds the location of the message.
        is_success: Whether the operation succeeded; for a decoded EndTransaction, whether it committed.
        request_id: Shared by SubBefore and SubAfter of one listener call.
        tries: Number of earlier deliveries, as the client reports it.
        outcome: Outcome of the listener call.
        transaction_id: Id of the transaction, usually the unique id of its message.
        state: How the transaction ended: COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW.
        is_from_check: Whether the broker had asked how the transaction ended.
    """

    kind: TraceKind
    message_id: str
    time_ms: int = 0
    region: str = ""
    group: str = ""
    topic: str = ""
    tags: str = ""
    keys: str = ""
    store_host: str = ""
    body_size: int = 0
    took_ms: int = 0
    message_kind: TracedMessage = TracedMessage.NORMAL
    offset_message_id: str = ""
    is_success: bool = True
    request_id: str = ""
    tries: int = 0
    outcome: TraceOutcome = TraceOutcome.SUCCESS
    transaction_id: str = ""
    state: str = ""
    is_from_check: bool = False


def encode_traces(traces: Iterable[Trace]) -> bytes:
    """Encode the body of a message for the trace topic; raises CodecError for a record of kind RECALL."""
    return "".join(_encode(trace) for trace in traces).encode()


def trace_keys(traces: Iterable[Trace]) -> tuple[str, ...]:
    """Return the keys of a message with these traces: their message ids and keys, without duplicates.

    An id with spaces, which a foreign client may give, counts as several keys, as for brokers.
    """
    words = (
        word for trace in traces for word in split_keys(f"{trace.message_id} {trace.keys}")
    )
    return tuple(dict.fromkeys(words))


def decode_traces(body: bytes) -> list[Trace]:
    """Decode the trace records of a message in the trace topic; unknown kinds are skipped.

    Raises:
        CodecError: A record lacks a required field, or a number is malformed or not one of its enumeration.
    """
    return [
        trace
        for text in body.decode("utf-8", "replace").split(RECORD_END)
        if text and (trace := _decode(text.split(FIELD_END))) is not None
    ]


def _encode(trace: Trace) -> str:
    match trace.kind:
        case TraceKind.PUB:
            values: tuple[object, ...] = (
                trace.time_ms, trace.region, trace.group, trace.topic, trace.message_id,
                trace.tags or _NULL, trace.keys, trace.store_host, trace.body_size,
                trace.took_ms, int(trace.message_kind), trace.offset_message_id or _NULL,
                _flag(trace.is_success),
            )  # fmt: skip
        case TraceKind.SUB_BEFORE:
            values = (
                trace.time_ms, trace.region, trace.group, trace.request_id, trace.message_id,
                trace.tries, trace.keys,
            )  # fmt: skip
        case TraceKind.SUB_AFTER:
            values = (
                trace.request_id, trace.message_id, trace.took_ms, _flag(trace.is_success),
                trace.keys, int(trace.outcome), trace.time_ms, trace.group,
            )  # fmt: skip
        case TraceKind.END_TRANSACTION:
            values = (
                trace.time_ms, trace.region, trace.group, trace.topic, trace.message_id,
                trace.tags or _NULL, trace.keys, trace.store_host, int(trace.message_kind),
                trace.transaction_id, trace.state, _flag(trace.is_from_check),
            )  # fmt: skip
        case _:
            raise CodecError(f"traces of the kind {trace.kind} cannot be encoded, only decoded")
    return FIELD_END.join((trace.kind.value, *map(str, values))) + RECORD_END


def _decode(fields: list[str]) -> Trace | None:
    kinds = {kind.value: kind for kind in TraceKind}
    kind = kinds.get(fields[0])
    if kind is None:
        return None
    try:
        return _READERS[kind](fields)
    except (IndexError, ValueError):
        raise CodecError(f"a {kind} trace of {len(fields)} fields cannot be decoded") from None


def _pub(fields: list[str]) -> Trace:
    has_offset_id = len(fields) >= 14
    return Trace(
        kind=TraceKind.PUB, time_ms=int(fields[1]), region=fields[2], group=fields[3],
        topic=fields[4], message_id=fields[5], tags=_text(fields[6]), keys=_text(fields[7]),
        store_host=_text(fields[8]), body_size=int(fields[9]), took_ms=int(fields[10]),
        message_kind=TracedMessage(int(fields[11])),
        offset_message_id=_text(fields[12]) if has_offset_id else "",
        is_success=fields[13 if has_offset_id else 12] == "true",
    )  # fmt: skip


def _sub_before(fields: list[str]) -> Trace:
    return Trace(
        kind=TraceKind.SUB_BEFORE, time_ms=int(fields[1]), region=fields[2], group=fields[3],
        request_id=fields[4], message_id=fields[5], tries=int(fields[6]), keys=_text(fields[7]),
    )  # fmt: skip


def _sub_after(fields: list[str]) -> Trace:
    has_more = len(fields) >= 9
    return Trace(
        kind=TraceKind.SUB_AFTER, request_id=fields[1], message_id=fields[2],
        took_ms=int(fields[3]), is_success=fields[4] == "true", keys=_text(fields[5]),
        outcome=TraceOutcome(int(fields[6])) if len(fields) >= 7 else TraceOutcome.SUCCESS,
        time_ms=int(fields[7]) if has_more else 0, group=fields[8] if has_more else "",
    )  # fmt: skip


def _end_transaction(fields: list[str]) -> Trace:
    return Trace(
        kind=TraceKind.END_TRANSACTION, time_ms=int(fields[1]), region=fields[2],
        group=fields[3], topic=fields[4], message_id=fields[5], tags=_text(fields[6]),
        keys=_text(fields[7]), store_host=_text(fields[8]),
        message_kind=TracedMessage(int(fields[9])), is_success=fields[11] == "COMMIT_MESSAGE",
        transaction_id=fields[10], state=fields[11],
        is_from_check=len(fields) > 12 and fields[12] == "true",
    )  # fmt: skip


def _recall(fields: list[str]) -> Trace:
    return Trace(
        kind=TraceKind.RECALL, time_ms=int(fields[1]), region=fields[2], group=fields[3],
        topic=fields[4], message_id=fields[5], is_success=fields[6] == "true",
    )  # fmt: skip


_READERS = {
    TraceKind.PUB: _pub,
    TraceKind.SUB_BEFORE: _sub_before,
    TraceKind.SUB_AFTER: _sub_after,
    TraceKind.END_TRANSACTION: _end_transaction,
    TraceKind.RECALL: _recall,
}


def _text(field: str) -> str:
    return "" if field == _NULL else field


def _flag(value: bool) -> str:  # noqa: FBT001  The value to write.
    return "true" if value else "false"
