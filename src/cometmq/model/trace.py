"""The characters that end fields and records in the body of a message trace (docs/format/trace.md)."""

FIELD_END = "\x01"
RECORD_END = "\x02"
