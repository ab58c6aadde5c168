from cometmq.kernel.columns import SendBatch
from cometmq.kernel.rows import Buffer, End, HeadRow

def pack_columns(
    batch: SendBatch[End],
    first: int,
    position: int,
    end: int,
    layouts: dict[int, HeadRow],
    store_ms: int,
    store_host: bytes,
    content: list[Buffer],
) -> tuple[int, int]: ...
def take_back(batch: SendBatch[End]) -> None: ...
def show_columns(
    batch: SendBatch[End],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> None: ...
def answer_columns(batch: SendBatch[End], first: int, last: int, host: str) -> bytes: ...
