from collections.abc import Callable
from typing import Any

def show_entries(
    arrivals: list[Any],
    dirty: dict[Any, None],
    tail_size_max: int,
    full: list[Any],
    watched: dict[Any, list[int]],
) -> None: ...
def choose_entries(
    entries: bytes | bytearray | memoryview,
    count_max: int,
    size_max: int,
    log_start: int,
    match: Callable[[int], bool] | None,
) -> tuple[list[tuple[int, int]], int, int, int, bool]: ...
def gather(view: memoryview, base: int, runs: list[tuple[int, int]]) -> bytes: ...
