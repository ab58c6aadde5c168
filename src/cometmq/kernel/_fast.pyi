from collections.abc import Callable, Sequence
from typing import Any

def read_commands(
    buffer: bytes, position: int, limit: int, header_size_max: int, languages: dict[str, int]
) -> tuple[list[Any], int, bool]: ...
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
def pack_records(
    puts: list[Any],
    first: int,
    position: int,
    end: int,
    layouts: dict[int, tuple[Callable[..., bytes], int, int]],
    store_ms: int,
    store_host: bytes,
    due_ms: Callable[[int], int],
    content: list[Any],
    arrivals: list[Any],
    results: list[Any],
) -> tuple[int, int]: ...
def show_entries(
    arrivals: list[Any],
    dirty: dict[Any, None],
    tail_size_max: int,
    full: list[Any],
    watched: dict[Any, list[int]],
) -> None: ...
def encode_requests(items: list[Any]) -> bytes: ...
def encode_answers(pending: list[Any], results: list[Any]) -> bytes: ...
def java_hash_many(texts: Sequence[bytes]) -> list[int]: ...
def index_insert(
    slots: memoryview[int],
    number: int,
    hashes: Sequence[int],
    offsets: Sequence[int],
    seconds: Sequence[int],
) -> tuple[bytes, int]: ...
def choose_entries(
    entries: bytes | bytearray | memoryview,
    count_max: int,
    size_max: int,
    log_start: int,
    match: Callable[[int], bool] | None,
) -> tuple[list[tuple[int, int]], int, int, int, bool]: ...
def count_records(piece: bytes | bytearray | memoryview) -> int: ...
def gather(view: memoryview, base: int, runs: list[tuple[int, int]]) -> bytes: ...
def index_keys(waiting: list[Any]) -> list[tuple[int, int, int]]: ...
def record_keys(records: Sequence[tuple[Any, ...]]) -> list[tuple[int, int, int]]: ...
