from collections.abc import Callable
from typing import Any

def plain_sends(
    commands: list[Any],
    first: int,
    straight: dict[str, dict[str, Any]],
    shapes: dict[str, int],
    look: Callable[[str], int | None],
    suffix: bytes,
    host: bytes,
    body_size_max: int,
    puts: list[Any],
    pending: list[Any],
) -> int: ...
def plain_batch(
    body: bytes,
    shared: bytes,
    queue: Any,
    topic_block: bytes,
    born_ms: int,
    host: bytes,
    times: int,
    hash_of: Callable[[str], int],
    puts: list[Any],
) -> bool: ...
