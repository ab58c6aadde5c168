from cometmq.kernel.rows import Awaited, SendHead, Settled, VolleyLimits
from cometmq.kernel.volleys import Volley as Volley

def pack_volley(
    volley: Volley,
    waiting: list[tuple[object, object]],
    start: int,
    head: SendHead,
    limits: VolleyLimits,
    awaited: dict[int, Awaited],
    deadline: float,
) -> bytes: ...
def plain_answers(
    data: bytes, position: int, awaited: dict[int, Awaited], count_max: int
) -> tuple[int, Volley | None, list[Settled], int]: ...
