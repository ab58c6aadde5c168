"""CRC-32 of bytes, by zlib-ng, which takes a fifth of zlib's time for a KiB.

Next: cometmq.kernel.records
"""

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:  # Where CometMQ was brought as a zip, to a Spark cluster, say.
    from zlib import crc32

__all__ = ["crc32"]
