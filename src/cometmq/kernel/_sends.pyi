from collections.abc import Callable

from cometmq.kernel.lane_table import LaneTable
from cometmq.kernel.rows import End, Pending, Put, RawCommand

def plain_sends(
    commands: list[RawCommand],
    first: int,
    straight: LaneTable[End],
    shapes: dict[str, int],
    look: Callable[[str], int | None],
    suffix: bytes,
    host: bytes,
    body_size_max: int,
    puts: list[Put[End]],
    pending: list[Pending],
) -> int: ...
def plain_batch(
    body: bytes,
    shared: bytes,
    queue: End,
    topic_block: bytes,
    born_ms: int,
    host: bytes,
    times: int,
    hash_of: Callable[[str], int],
    puts: list[Put[End]],
) -> bool: ...
