"""The separators of a message trace: after each field but the last, and after a record (docs/format/trace.md)."""

FIELD_END = "\x01"
RECORD_END = "\x02"
