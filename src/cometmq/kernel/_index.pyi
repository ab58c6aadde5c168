from collections.abc import Sequence
from typing import Any

from cometmq.kernel.rows import Buffer, End, Keys, PutBatch

def java_hash_many(texts: Sequence[bytes]) -> list[int]: ...
def insert_keys(
    slots: memoryview[int],
    number: int,
    keys: Keys,
    begin_ms: int,
    changed: bytearray,
    before: int,
    a_page: int,
) -> tuple[bytes, int]: ...
def index_keys(waiting: Sequence[PutBatch[End]]) -> Keys: ...
def record_keys(records: Sequence[tuple[Any, ...]]) -> Keys: ...
def raw_keys(chunk: Buffer, position: int, offset: int) -> tuple[Keys, int]: ...
