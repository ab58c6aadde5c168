from typing import Any

def read_commands(
    buffer: bytes, position: int, limit: int, header_size_max: int, languages: dict[str, int]
) -> tuple[list[Any], int, bool]: ...
