def sha1(content: bytes, is_plain: bool = False) -> bytes: ...
def signing_key(secret: bytes) -> bytes: ...
def signed_sends(
    data: bytes,
    position: int,
    count_max: int,
    user: bytes,
    key: bytes,
    frame_size_max: int,
    header_size_max: int,
) -> tuple[int, list[bytes]]: ...
