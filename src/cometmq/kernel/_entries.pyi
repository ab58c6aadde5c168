from collections.abc import Callable

from cometmq.kernel.rows import Arrival, Buffer, Chosen, End, Run

def show_entries(
    arrivals: list[Arrival[End]],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> None: ...
def show_records(
    chunk: Buffer,
    position: int,
    offset: int,
    unusual: tuple[int, bytes, str],
    queues_of: Callable[[str], dict[int, End] | None],
    queue_type: type[End],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> tuple[int, int]: ...
def choose_entries(
    entries: Buffer,
    count_max: int,
    size_max: int,
    log_start: int,
    match: Callable[[int], bool] | None,
) -> Chosen: ...
def gather(view: memoryview, base: int, runs: list[Run]) -> bytes: ...
