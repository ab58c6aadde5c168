from cometmq.kernel.columns import SendBatch
from cometmq.kernel.lane_table import LaneTable
from cometmq.kernel.rows import End, TakeLimits
from cometmq.kernel.turn_reads import OfPeer
from cometmq.kernel.turn_reads import PeerEnd as PeerEnd
from cometmq.kernel.turn_reads import TurnReads as TurnReads

def take_reads(
    turn: TurnReads[OfPeer],
    batch: SendBatch[End],
    ends: list[tuple[OfPeer, int]],
    count_max: int,
    size_min: int,
    straight: LaneTable[End],
    limits: TakeLimits,
) -> None: ...
def answer_reads(batch: SendBatch[End], ends: list[tuple[OfPeer, int]], host: str) -> None: ...
