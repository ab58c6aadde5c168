"""Hot loops on bytes and ints: the plain-Python meaning, `reference.py`, is what runs."""

from cometmq.kernel.reference import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    WalkEnd,
    index_insert,
    java_hash_many,
    split_frames,
    walk_records,
    why_no_record,
)

__all__ = [
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "RECORD_SIZE_MIN",
    "WalkEnd",
    "index_insert",
    "java_hash_many",
    "split_frames",
    "walk_records",
    "why_no_record",
]
