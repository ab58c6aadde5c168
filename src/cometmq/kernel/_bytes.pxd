# Numbers in network order, read where they stand.
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef inline uint32_t get_u32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline uint64_t get_u64(const uint8_t *at) noexcept nogil:
    return <uint64_t>get_u32(at) << 32 | get_u32(at + 4)
