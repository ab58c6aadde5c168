"""The characters that follow a field, and the last field of a record, in a message trace (docs/format/trace.md)."""

FIELD_END = "\x01"
RECORD_END = "\x02"
