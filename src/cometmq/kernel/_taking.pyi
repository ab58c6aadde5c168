from cometmq.kernel.columns import SendBatch
from cometmq.kernel.rows import End, Lane

def take_sends(
    batch: SendBatch[End],
    data: bytes,
    position: int,
    count_max: int,
    host: bytes,
    straight: dict[str, dict[str, Lane[End]]],
    body_size_max: int,
    frame_size_max: int,
    header_size_max: int,
    batch_count_max: int,
) -> int: ...
