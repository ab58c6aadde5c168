from collections.abc import Sequence
from typing import Any

from cometmq.kernel.rows import End, Key, PutBatch

def java_hash_many(texts: Sequence[bytes]) -> list[int]: ...
def index_insert(
    slots: memoryview[int],
    number: int,
    hashes: Sequence[int],
    offsets: Sequence[int],
    seconds: Sequence[int],
) -> tuple[bytes, int]: ...
def index_keys(waiting: list[PutBatch[End]]) -> list[Key]: ...
def record_keys(records: Sequence[tuple[Any, ...]]) -> list[Key]: ...
