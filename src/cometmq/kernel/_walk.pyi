from typing import Any, TypeVar

from cometmq.kernel.rows import Buffer, Wanted

RecordType = TypeVar("RecordType", bound=tuple[Any, ...])

def plain_records(
    chunk: bytes,
    position: int,
    offset: int,
    topics: dict[bytes, str],
    record_type: type[RecordType],
    records: list[RecordType],
) -> int: ...
def check_records(chunk: Buffer, position: int, offset: int) -> tuple[int, int, int]: ...
def record_places(chunk: Buffer, position: int, last: int) -> tuple[bytes, int]: ...
def crcs_match(chunk: bytes, places: bytes, parts: bytes, said: bytes) -> bytes: ...
def copy_pieces(source: Buffer, places: bytes, parts: bytes, target: memoryview) -> None: ...
def wanted_entries(
    chunk: bytes, position: int, offset: int, queues: Wanted, keys: bytearray
) -> tuple[int, int]: ...
def stored_keys(
    slots: memoryview[int], number: int, entries: bytes
) -> tuple[bytes, int, bool]: ...
