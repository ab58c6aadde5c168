"""A span for each message that carries a trace of OpenTelemetry: that this broker stored it, below the span that sent it.

Read from the log behind its dispatch, in a thread, so that no send knows of it: the log is searched for the property's
name, and only where it stands somewhere before the end are records looked at, one by one.
"""

import logging
import struct
from collections.abc import Callable
from typing import NamedTuple

from opentelemetry.trace import SpanKind, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cometmq.codec.record import MAGIC_BLANK, Record, decode_record
from cometmq.model.errors import CodecError
from cometmq.model.properties import UNIQ_KEY
from cometmq.store.disk import Buffer

_log = logging.getLogger(__name__)

PIECE_SIZE = 1 << 20
RECORD_SIZE_MAX = 17 << 20
SPANS_AT_ONCE = 1_000
_MARK = b"traceparent\x01"
_HEAD = struct.Struct(">II")
_PROPAGATOR = TraceContextTextMapPropagator()


class SpanScan(NamedTuple):
    """The result of a look for stored spans.

    Attributes:
        offset: physical offset of what was not looked at.
        spans: made.
        skipped: messages with a trace that had no room.
    """

    offset: int
    spans: int
    skipped: int


class StoredSpans:
    """Makes the spans.

    Args:
        read: bytes of the log from an offset on, at most so many; None: it has none there. In any thread.
        tracer: makes and sends spans.
        broker: its name.
    """

    def __init__(
        self, read: Callable[[int, int], Buffer | None], tracer: Tracer, broker: str
    ) -> None:
        self._read = read
        self._tracer = tracer
        self._broker = broker
        self._next = 0  # Where the last look ended.
        self._clear_to = 0  # From there to here the name stands nowhere.

    def look(self, start: int, end: int) -> SpanScan:
        """Look at the log from one record's begin to another's end, or a piece of it. May wait: in a thread."""
        if start != self._next:  # The log was truncated.
            self._clear_to = 0
        found = SpanScan(end, 0, 0) if self._is_clear(start, end) else self._records(start, end)
        self._next = found.offset
        return found

    def _records(self, start: int, end: int) -> SpanScan:
        """Look at a piece, record by record."""
        piece = self._read(start, min(PIECE_SIZE, end - start))
        if piece is None:
            return SpanScan(end, 0, 0)  # It is deleted by now.
        content = bytes(piece)
        if len(content) >= _HEAD.size:
            size, magic = _HEAD.unpack_from(content)
            if magic == MAGIC_BLANK:
                return SpanScan(start + max(size, _HEAD.size), 0, 0)
            if len(content) < size <= RECORD_SIZE_MAX and start + size <= end:
                content = bytes(self._read(start, size) or b"")
        return self._walk(start, content, end)

    def _is_clear(self, start: int, end: int) -> bool:
        """Whether the name stands nowhere up to there; searched once, as far as it first stands."""
        at = max(start, self._clear_to)
        while at < end:
            piece = self._read(at, min(PIECE_SIZE, end - at))
            content = bytes(piece or b"")
            if not content:  # It is deleted by now.
                break
            if _MARK in content:
                self._clear_to = at
                return False
            # It may stand across the ends of two pieces; never across those of two files.
            at += len(content) - len(_MARK) if len(content) == PIECE_SIZE else len(content)
        self._clear_to = end
        return True

    def _walk(self, start: int, content: bytes, end: int) -> SpanScan:
        spans = skipped = position = 0
        while position + _HEAD.size <= len(content):
            size, magic = _HEAD.unpack_from(content, position)
            if magic == MAGIC_BLANK:
                return SpanScan(start + position + max(size, _HEAD.size), spans, skipped)
            after = position + size
            if size < _HEAD.size:
                _log.warning("no record at %d; no spans before %d", start + position, end)
                return SpanScan(end, spans, skipped)
            if after > len(content):
                break
            if content.find(_MARK, position, after) >= 0:
                if spans < SPANS_AT_ONCE:
                    spans += self._span(content, position)
                else:
                    skipped += 1
            position = after
        # Where not even one record was there, nothing would ever come.
        return SpanScan(start + position if position else end, spans, skipped)

    def _span(self, content: bytes, position: int) -> int:
        """Make the span of a record; 0: it has no trace that is one."""
        try:
            record = decode_record(content, position)
            properties = record.properties()
        except CodecError:
            return 0
        parent = _PROPAGATOR.extract(properties)
        if not get_current_span(parent).get_span_context().is_valid:
            return 0
        at_ns = record.store_timestamp * 1_000_000
        span = self._tracer.start_span(
            f"store {record.topic}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes=self._attributes(record, properties.get(UNIQ_KEY, "")),
            start_time=at_ns,
        )
        span.end(at_ns)
        return 1

    def _attributes(self, record: Record, message_id: str) -> dict[str, str | int]:
        return {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "store",
            "messaging.destination.name": record.topic,
            "messaging.destination.partition.id": str(record.queue_id),
            "messaging.rocketmq.broker": self._broker,
            "messaging.rocketmq.queue_offset": record.queue_offset,
            "messaging.message.id": message_id,
            "messaging.message.body.size": len(record.body),
        }
