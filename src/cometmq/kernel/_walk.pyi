from typing import Any, TypeVar

from cometmq.kernel.wanted import Wanted

RecordType = TypeVar("RecordType", bound=tuple[Any, ...])

def plain_records(
    chunk: bytes,
    position: int,
    offset: int,
    topics: dict[bytes, str],
    record_type: type[RecordType],
    records: list[RecordType],
) -> int: ...
def wanted_entries(
    chunk: bytes, position: int, offset: int, queues: Wanted, keys: bytearray
) -> tuple[int, int]: ...
def stored_keys(
    slots: memoryview[int], number: int, entries: bytes
) -> tuple[bytes, int, bool]: ...
