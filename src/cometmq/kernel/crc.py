"""CRC-32 by zlib-ng, which takes a fifth of zlib's time for a KiB; by zlib if zlib-ng is not installed.

The compiled twin `_crc` calls zlib-ng directly if it can: for 128 bytes, a call through Python takes twice as long as the CRC.
"""

import ctypes

try:
    from zlib_ng import zlib_ng
    from zlib_ng.zlib_ng import crc32

    _LIBRARY = zlib_ng.__file__
except ImportError:  # For example if a Spark cluster received CometMQ as a zip file.
    from zlib import crc32

    _LIBRARY = ""

__all__ = ["crc32", "crc_address"]

_SAMPLE = b"123456789"
_Function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)


def crc_address() -> int:
    """Return the address of zlib-ng's CRC-32 function (start value, bytes, size) -> CRC; 0 if it is not available."""
    if not _LIBRARY:
        return 0
    try:
        function = _Function(("zng_crc32_z", ctypes.CDLL(_LIBRARY)))
    except (OSError, AttributeError):
        return 0
    if function(0, _SAMPLE, len(_SAMPLE)) != crc32(_SAMPLE):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
