# Numbers in network order, read and written where they stand.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <string.h>

    /* Short bytes are copied as two words that overlap: a call of memcpy takes longer than that. */
    static inline void copy_bytes(unsigned char *to, const void *from, Py_ssize_t size) {
        const unsigned char *at = (const unsigned char *)from;
        unsigned char head[16], tail[16];
        if (size >= 16 && size <= 32) {
            memcpy(head, at, 16); memcpy(tail, at + size - 16, 16);
            memcpy(to, head, 16); memcpy(to + size - 16, tail, 16);
        } else if (size >= 8 && size < 16) {
            memcpy(head, at, 8); memcpy(tail, at + size - 8, 8);
            memcpy(to, head, 8); memcpy(to + size - 8, tail, 8);
        } else {
            memcpy(to, at, size);
        }
    }
    """
    void copy_bytes(uint8_t *to, const void *start, Py_ssize_t size) noexcept nogil


cdef inline uint32_t get_u32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline uint64_t get_u64(const uint8_t *at) noexcept nogil:
    return <uint64_t>get_u32(at) << 32 | get_u32(at + 4)


cdef inline uint8_t *put_u32(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = value >> 24
    at[1] = value >> 16 & 0xFF
    at[2] = value >> 8 & 0xFF
    at[3] = value & 0xFF
    return at + 4


cdef inline uint8_t *put_u64(uint8_t *at, uint64_t value) noexcept nogil:
    put_u32(at, <uint32_t>(value >> 32))
    return put_u32(at + 4, <uint32_t>value)


cdef inline uint8_t *put_u16(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = value >> 8 & 0xFF
    at[1] = value & 0xFF
    return at + 2


cdef inline uint8_t *put_bytes(uint8_t *at, const void *start, Py_ssize_t size) noexcept nogil:
    copy_bytes(at, start, size)
    return at + size
