from collections.abc import Callable

from cometmq.kernel.messages import Message, Queue

def plain_messages(
    body: bytes,
    position: int,
    queue: Queue,
    topic: bytes,
    new: Callable[[], Message],
    messages: list[Message],
) -> int: ...
def plain_properties(block: bytes) -> dict[str, str] | None: ...
