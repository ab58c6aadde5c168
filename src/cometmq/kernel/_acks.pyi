from cometmq.kernel.acks import Find
from cometmq.kernel.rows import RawCommand

def plain_acks(
    commands: list[RawCommand], find: Find, before: bytes, end: bytes
) -> tuple[list[int], bytes, list[RawCommand]]: ...
def take_acks(
    data: bytes, position: int, count_max: int, find: Find, before: bytes, end: bytes
) -> tuple[int, int, list[int], bytes]: ...
