"""Tells whether a piece of a file is all zeros (unwritten); fast, because whole files may be unwritten."""

_SIZE = (4 << 20) + 4096
_ZEROS = bytes(_SIZE)  # Never written to, so the kernel maps one page for all of it.


def is_zeros(piece: bytes) -> bool:
    """Return whether a piece contains only zeros."""
    whole = len(piece) - len(piece) % _SIZE
    # A memcmp per part of this size; only a last, smaller part is copied.
    return all(piece.startswith(_ZEROS, at) for at in range(0, whole, _SIZE)) and (
        _ZEROS.startswith(piece[whole:])
    )
