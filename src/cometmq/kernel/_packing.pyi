from collections.abc import Callable
from typing import Any

def pack_records(
    puts: list[Any],
    first: int,
    position: int,
    end: int,
    layouts: dict[int, tuple[Callable[..., bytes], int, int]],
    store_ms: int,
    store_host: bytes,
    due_ms: Callable[[int], int],
    content: list[Any],
    arrivals: list[Any],
    results: list[Any],
) -> tuple[int, int]: ...
def count_records(piece: bytes | bytearray | memoryview) -> int: ...
