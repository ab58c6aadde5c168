"""Finds OpenSSL's SHA-1 functions for the compiled kernel, in the library that `hashlib` is linked to.

Calling `hashlib` for each signed message takes three times as long as the computation.
"""

import ctypes

_FUNCTIONS = ("SHA1_Init", "SHA1_Update", "SHA1_Final")


def sha1_addresses() -> list[int] | None:
    """Return the addresses of SHA1_Init, SHA1_Update and SHA1_Final; None if not found, for example with OpenSSL built in."""
    try:
        import _hashlib

        library = ctypes.CDLL(_hashlib.__file__)  # Includes the libraries that it is linked to.
        functions = [getattr(library, name) for name in _FUNCTIONS]
    except (ImportError, AttributeError, OSError):
        return None
    return [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions]
