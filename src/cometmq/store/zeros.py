"""Space that was made ahead and never written: whole files of it, which must cost little to look at.

Next: cometmq.offline.log_scan
"""

_SIZE = (4 << 20) + 4096
_ZEROS = bytes(_SIZE)  # Never written to: the kernel has one page for all of it.


def is_zeros(piece: bytes) -> bool:
    """Whether a piece holds nothing but zeros."""
    if len(piece) <= _SIZE:
        return _ZEROS.startswith(piece)  # One memcmp, and no copy.
    return all(is_zeros(piece[at : at + _SIZE]) for at in range(0, len(piece), _SIZE))
