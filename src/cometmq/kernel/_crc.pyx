# cython: language_level=3
"""The compiled twin of `crc`: CRC-32 of bytes where they stand, with no object of Python made of them or of it."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t

from cometmq.kernel._layouts cimport CRC_MASK
from cometmq.kernel.crc import crc32, crc_address

ctypedef uint32_t (*Function)(uint32_t begun, const uint8_t *at, size_t size) noexcept nogil

cdef Function _function = <Function><size_t>crc_address()


cdef uint32_t crc_of(const uint8_t *at, Py_ssize_t size) except? 1:
    """The CRC-32 of bytes as records have it: without its highest bit."""
    if _function is not NULL:
        return _function(0, at, size) & CRC_MASK
    return <uint32_t>crc32(PyBytes_FromStringAndSize(<const char *>at, size)) & CRC_MASK
