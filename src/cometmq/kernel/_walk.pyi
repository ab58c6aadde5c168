from typing import Any, TypeVar

RecordType = TypeVar("RecordType", bound=tuple[Any, ...])

def plain_records(
    chunk: bytes,
    position: int,
    offset: int,
    topics: dict[bytes, str],
    record_type: type[RecordType],
    records: list[RecordType],
) -> int: ...
