# CRC-32 of bytes where they stand.
from libc.stdint cimport uint8_t, uint32_t

cdef uint32_t crc_of(const uint8_t *at, Py_ssize_t size) except? 1
