from collections.abc import Callable
from typing import Any

def plain_messages(
    body: bytes,
    position: int,
    queue: Any,
    topic: bytes,
    make: Callable[..., Any],
    host_text: Callable[[bytes], str],
    messages: list[Any],
) -> int: ...
def plain_properties(block: bytes) -> dict[str, str] | None: ...
