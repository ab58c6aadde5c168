"""CRC-32 of bytes, by zlib-ng, which takes a fifth of zlib's time for a KiB.

Compiled: `_crc`, which calls zlib-ng's own function; of 128 bytes the way to it through Python takes twice as
long as their CRC.
"""

import ctypes

try:
    from zlib_ng import zlib_ng
    from zlib_ng.zlib_ng import crc32

    _LIBRARY = zlib_ng.__file__
except ImportError:  # Where CometMQ was brought as a zip, to a Spark cluster, say.
    from zlib import crc32

    _LIBRARY = ""

__all__ = ["crc32", "crc_address"]

_SAMPLE = b"123456789"
_Function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)


def crc_address() -> int:
    """The address of zlib-ng's own CRC-32, (begun, bytes, size) -> CRC; 0: there is none, or it is hidden."""
    if not _LIBRARY:
        return 0
    try:
        function = _Function(("zng_crc32_z", ctypes.CDLL(_LIBRARY)))
    except (OSError, AttributeError):
        return 0
    if function(0, _SAMPLE, len(_SAMPLE)) != crc32(_SAMPLE):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
