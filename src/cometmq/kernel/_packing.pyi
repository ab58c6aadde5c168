from collections.abc import Callable

from cometmq.kernel.rows import Arrival, Buffer, End, HeadRow, Put, PutResult

def pack_records(
    puts: list[Put[End]],
    first: int,
    position: int,
    end: int,
    layouts: dict[int, HeadRow],
    store_ms: int,
    store_host: bytes,
    due_ms: Callable[[int], int],
    content: list[Buffer],
    arrivals: list[Arrival[End]],
    results: list[PutResult],
) -> tuple[int, int]: ...
def count_records(piece: Buffer) -> int: ...
