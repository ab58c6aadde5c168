from collections.abc import Callable, Mapping
from typing import Any

from cometmq.kernel.rows import FieldRow, PlacedEntries

def plain_fields(
    values: Mapping[str, str], rows: tuple[FieldRow, ...]
) -> tuple[Any, ...] | None: ...
def plain_read(
    entries: PlacedEntries,
    count_max: int,
    size_max: int,
    log_start: int,
    match: Callable[[int], bool] | None,
    view: memoryview,
    base: int,
) -> tuple[bytes, int, int, int] | None: ...
