from collections.abc import Callable

from cometmq.kernel.rows import Arrival, Buffer, Chosen, End, Run

def show_entries(
    arrivals: list[Arrival[End]],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> None: ...
def choose_entries(
    entries: Buffer,
    count_max: int,
    size_max: int,
    log_start: int,
    match: Callable[[int], bool] | None,
) -> Chosen: ...
def gather(view: memoryview, base: int, runs: list[Run]) -> bytes: ...
