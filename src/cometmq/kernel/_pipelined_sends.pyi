from cometmq.kernel.pipelined_sends import PipelinedSends as PipelinedSends
from cometmq.kernel.rows import Awaited, PipelinedLimits, SendHead, Settled

def pack_pipelined_sends(
    sends: PipelinedSends,
    waiting: list[tuple[object, object]],
    start: int,
    head: SendHead,
    limits: PipelinedLimits,
    awaited: dict[int, Awaited],
    deadline: float,
) -> bytes: ...
def plain_answers(
    data: bytes, position: int, awaited: dict[int, Awaited], count_max: int
) -> tuple[int, PipelinedSends | None, list[Settled], int]: ...
