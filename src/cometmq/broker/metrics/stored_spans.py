"""Creates spans for stored messages with an OpenTelemetry trace, as children of the spans that sent them.

At most 1,000 are created per piece of the log, usually 1 MB or less. The log is read after dispatch, in a thread, so
that sends hardly wait for it. Only records that contain the text `traceparent` are decoded.
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
    """The result of a scan for messages with traces.

    Attributes:
        offset: Physical offset at which the scan ended.
        spans: Number of spans created.
        skipped: Number of records with the text `traceparent` beyond the limit.
    """

    offset: int
    spans: int
    skipped: int


class StoredSpans:
    """A scanner of the log that creates spans for messages with a trace.

    `read` returns bytes of the log from an offset on, up to a size; None if there are none. Callable in any thread.
    """

    def __init__(
        self, read: Callable[[int, int], Buffer | None], tracer: Tracer, broker: str
    ) -> None:
        self._read = read
        self._tracer = tracer
        self._broker = broker
        self._next = 0  # End of the last scan.
        self._clear_to = 0  # The name does not occur before this offset.

    def look(self, start: int, end: int) -> SpanScan:
        """Scan a range of the log, or only the first part of the range, and create spans. May wait for the disk."""
        if start != self._next:  # The log was truncated.
            self._clear_to = 0
        found = SpanScan(end, 0, 0) if self._is_clear(start, end) else self._records(start, end)
        self._next = found.offset
        return found

    def _records(self, start: int, end: int) -> SpanScan:
        piece = self._read(start, min(PIECE_SIZE, end - start))
        if piece is None:
            return SpanScan(end, 0, 0)  # Deleted meanwhile.
        content = bytes(piece)
        if len(content) >= _HEAD.size:
            size, magic = _HEAD.unpack_from(content)
            if magic == MAGIC_BLANK:
                return SpanScan(start + max(size, _HEAD.size), 0, 0)
            if len(content) < size <= RECORD_SIZE_MAX and start + size <= end:
                content = bytes(self._read(start, size) or b"")
        return self._walk(start, content, end)

    def _is_clear(self, start: int, end: int) -> bool:
        """Return whether `traceparent` was not found between two offsets, as far as the log could be read."""
        at = max(start, self._clear_to)
        while at < end:
            piece = self._read(at, min(PIECE_SIZE, end - at))
            content = bytes(piece or b"")
            if not content:  # Deleted meanwhile.
                break
            if _MARK in content:
                self._clear_to = at
                return False
            # The name may cross the boundary of two pieces, but not of two files.
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
                _log.warning(
                    "no record begins at physical offset %d; no spans are created up to %d",
                    start + position, end,
                )  # fmt: skip
                return SpanScan(end, spans, skipped)
            if after > len(content):
                break
            if content.find(_MARK, position, after) >= 0:
                if spans < SPANS_AT_ONCE:
                    spans += self._span(content, position)
                else:
                    skipped += 1
            position = after
        # Without any whole record, the scan would never proceed.
        return SpanScan(start + position if position else end, spans, skipped)

    def _span(self, content: bytes, position: int) -> int:
        """Create the span of a record and return 1, or return 0 if the record is malformed or has no valid trace."""
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
