# CRC-32 of short bytes without a call of Python, by carry-less multiplication where the processor has it.
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>

    #define CRC_FOLDED __attribute__((target("pclmul,sse4.1"))) static inline

    static inline int can_fold(void) {
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    }

    CRC_FOLDED __m128i crc_step(__m128i sum, __m128i by, __m128i next) {
        __m128i low = _mm_clmulepi64_si128(sum, by, 0x00), high = _mm_clmulepi64_si128(sum, by, 0x11);
        return _mm_xor_si128(_mm_xor_si128(low, high), next);
    }

    /* Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009; of 64 bytes at least. */
    CRC_FOLDED uint32_t crc_folded(const uint8_t *at, size_t size) {
        static const uint32_t NIBBLES[16] = {
            0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
            0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
        const __m128i by_four = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
        const __m128i by_one = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        const __m128i last = _mm_set_epi64x(0, 0x0163cd6124);
        const __m128i poly = _mm_set_epi64x(0x01f7011641, 0x01db710641);
        const __m128i low_half = _mm_setr_epi32(~0, 0, ~0, 0);
        const __m128i *next = (const __m128i *)at;
        __m128i a = _mm_xor_si128(_mm_loadu_si128(next), _mm_cvtsi32_si128(-1));
        __m128i b = _mm_loadu_si128(next + 1), c = _mm_loadu_si128(next + 2), d = _mm_loadu_si128(next + 3), e;
        uint32_t crc;
        for (next += 4, size -= 64; size >= 64; next += 4, size -= 64) {
            a = crc_step(a, by_four, _mm_loadu_si128(next));
            b = crc_step(b, by_four, _mm_loadu_si128(next + 1));
            c = crc_step(c, by_four, _mm_loadu_si128(next + 2));
            d = crc_step(d, by_four, _mm_loadu_si128(next + 3));
        }
        a = crc_step(crc_step(crc_step(a, by_one, b), by_one, c), by_one, d);
        for (; size >= 16; next++, size -= 16)
            a = crc_step(a, by_one, _mm_loadu_si128(next));
        a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_one, 0x10));
        a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low_half), last, 0x00));
        e = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low_half), poly, 0x10), low_half);
        crc = (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, _mm_clmulepi64_si128(e, poly, 0x00)), 1);
        for (at = (const uint8_t *)next; size; at++, size--) {
            crc = NIBBLES[(crc ^ *at) & 15] ^ crc >> 4;
            crc = NIBBLES[(crc ^ *at >> 4) & 15] ^ crc >> 4;
        }
        return ~crc;
    }
    #else
    static inline int can_fold(void) { return 0; }
    static inline uint32_t crc_folded(const uint8_t *at, size_t size) { return 0; }
    #endif
    """
    bint can_fold() nogil
    uint32_t crc_folded(const uint8_t *at, size_t size) nogil

cdef enum:
    # Fewer bytes cannot be folded so; of more zlib-ng folds four times as many at once.
    FOLDED_SIZE_MIN = 64
    FOLDED_SIZE_MAX = 1024


cdef inline bint is_folded(Py_ssize_t size) noexcept nogil:
    """Whether the CRC of so many bytes is computed here."""
    return FOLDED_SIZE_MIN <= size <= FOLDED_SIZE_MAX and can_fold()


cdef inline uint32_t crc_of(object crc32, const uint8_t *at, Py_ssize_t size) except? 0:
    """The CRC-32 of some bytes; `crc32` is that of `cometmq.kernel.crc`, for those that are not folded here."""
    if is_folded(size):
        return crc_folded(at, size)
    return <uint32_t>crc32(PyBytes_FromStringAndSize(<const char *>at, size))
