"""Space that was made ahead and never written: whole files of it, which must cost little to look at.

Next: cometmq.store.offline.log_scan
"""

_ZEROS = bytes(
    (4 << 20) + 4096
)  # Pages that are never written to; the kernel has one for all of them.


def is_blank(piece: bytes) -> bool:
    """Whether a piece holds nothing but zeros."""
    if len(piece) > len(_ZEROS):
        return not piece.rstrip(b"\0")
    return _ZEROS.startswith(piece)  # One memcmp, and no copy.
