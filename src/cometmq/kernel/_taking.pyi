from cometmq.kernel.columns import SendBatch
from cometmq.kernel.rows import End, Lane, TakeLimits
from cometmq.kernel.signatures import KnownSigner

def take_sends(
    batch: SendBatch[End],
    data: bytes,
    position: int,
    count_max: int,
    host: bytes,
    straight: dict[str, dict[str, Lane[End]]],
    limits: TakeLimits,
    signer: KnownSigner | None = None,
) -> int: ...
