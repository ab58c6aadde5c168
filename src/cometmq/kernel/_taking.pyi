from cometmq.kernel.columns import SendBatch
from cometmq.kernel.lane_table import LaneTable
from cometmq.kernel.rows import End, TakeLimits
from cometmq.kernel.signatures import KnownSigner

def take_sends(
    batch: SendBatch[End],
    data: bytes,
    position: int,
    count_max: int,
    host: bytes,
    straight: LaneTable[End],
    limits: TakeLimits,
    signer: KnownSigner | None = None,
) -> int: ...
