# Numbers in network order, read and written where they stand.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <string.h>

    /* A compiler finds the swap in shifts of single bytes, but not where two such numbers are written side by side. */
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define NETWORK_32(value) (value)
    #define NETWORK_64(value) (value)
    #else
    #define NETWORK_32(value) __builtin_bswap32(value)
    #define NETWORK_64(value) __builtin_bswap64(value)
    #endif

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
    uint32_t NETWORK_32(uint32_t value) nogil
    uint64_t NETWORK_64(uint64_t value) nogil


cdef inline uint32_t get_u32(const uint8_t *at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return NETWORK_32(value)


cdef inline uint64_t get_u64(const uint8_t *at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return NETWORK_64(value)


cdef inline uint8_t *put_u32(uint8_t *at, uint32_t value) noexcept nogil:
    value = NETWORK_32(value)
    memcpy(at, &value, 4)
    return at + 4


cdef inline uint8_t *put_u64(uint8_t *at, uint64_t value) noexcept nogil:
    value = NETWORK_64(value)
    memcpy(at, &value, 8)
    return at + 8


cdef inline uint8_t *put_u16(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = value >> 8 & 0xFF
    at[1] = value & 0xFF
    return at + 2


cdef inline uint8_t *put_bytes(uint8_t *at, const void *start, Py_ssize_t size) noexcept nogil:
    copy_bytes(at, start, size)
    return at + size
