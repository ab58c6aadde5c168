from cometmq.kernel.acks import Find
from cometmq.kernel.rows import RawCommand

def plain_acks(
    commands: list[RawCommand], find: Find, before: bytes, end: bytes
) -> tuple[list[int], bytes, list[RawCommand]]: ...
