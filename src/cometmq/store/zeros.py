"""Space that was made ahead and never written: whole files of it, which must cost little to look at."""

_SIZE = (4 << 20) + 4096
_ZEROS = bytes(_SIZE)  # Never written to: the kernel has one page for all of it.


def is_zeros(piece: bytes) -> bool:
    """Whether a piece holds nothing but zeros."""
    whole = len(piece) - len(piece) % _SIZE
    # A memcmp for each part of the size; no part is copied but the last, and that not where it is all.
    return all(piece.startswith(_ZEROS, at) for at in range(0, whole, _SIZE)) and (
        _ZEROS.startswith(piece[whole:])
    )
