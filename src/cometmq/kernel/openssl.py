"""Finds the SHA-1 functions of OpenSSL for the compiled kernel: in the library that `hashlib` is linked to.

A call of `hashlib` for a message takes three times as long as what it computes.
"""

import ctypes

_FUNCTIONS = ("SHA1_Init", "SHA1_Update", "SHA1_Final")


def sha1_addresses() -> list[int] | None:
    """The addresses of what begins, goes on with and ends a hash; None where Python has OpenSSL built in, or has none."""
    try:
        import _hashlib

        library = ctypes.CDLL(_hashlib.__file__)  # With what it is linked to.
        functions = [getattr(library, name) for name in _FUNCTIONS]
    except (ImportError, AttributeError, OSError):
        return None
    return [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions]
