# SHA-1 of whole blocks (FIPS 180-4), for the signatures of requests: RocketMQ's protocol fixes it. A call of hashlib takes three
# times as long as the blocks of a send. Processors with the SHA extensions of x86 use them.
from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    static inline uint32_t sha1_roll(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

    #define SHA1_WORD(t) (word[(t) & 15] = sha1_roll( \\
        word[((t) + 13) & 15] ^ word[((t) + 8) & 15] ^ word[((t) + 2) & 15] ^ word[(t) & 15], 1))
    #define SHA1_STEP(t, next, mix, add) do { \\
        uint32_t made = sha1_roll(a, 5) + (mix) + e + (add) + (next); \\
        e = d; d = c; c = sha1_roll(b, 30); b = a; a = made; } while (0)

    static void sha1_blocks_plain(uint32_t *state, const uint8_t *at, size_t count) {
        uint32_t word[16];
        for (; count; count--, at += 64) {
            uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
            int t;
            for (t = 0; t < 16; t++) {
                word[t] = (uint32_t)at[4 * t] << 24 | (uint32_t)at[4 * t + 1] << 16 | (uint32_t)at[4 * t + 2] << 8 | at[4 * t + 3];
                SHA1_STEP(t, word[t], (b & c) | (~b & d), 0x5A827999u);
            }
            for (; t < 20; t++) SHA1_STEP(t, SHA1_WORD(t), (b & c) | (~b & d), 0x5A827999u);
            for (; t < 40; t++) SHA1_STEP(t, SHA1_WORD(t), b ^ c ^ d, 0x6ED9EBA1u);
            for (; t < 60; t++) SHA1_STEP(t, SHA1_WORD(t), (b & c) | (b & d) | (c & d), 0x8F1BBCDCu);
            for (; t < 80; t++) SHA1_STEP(t, SHA1_WORD(t), b ^ c ^ d, 0xCA62C1D6u);
            state[0] += a; state[1] += b; state[2] += c; state[3] += d; state[4] += e;
        }
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <cpuid.h>
    #include <immintrin.h>

    static int sha1_is_fast(void) {
        unsigned a, b, c, d;
        static int known = -1;
        if (known < 0) {
            int has_ssse3_sse41 = __get_cpuid(1, &a, &b, &c, &d) && (c & 1 << 9) && (c & 1 << 19);
            known = has_ssse3_sse41 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1 << 29);
        }
        return known;
    }

    /* Four steps; the words of the message are made some groups before they are needed. */
    #define SHA1_GROUP(g, one, other) do { \\
        one = (g) ? _mm_sha1nexte_epu32(one, words[(g) & 3]) : _mm_add_epi32(one, words[0]); \\
        other = abcd; \\
        if ((g) >= 3 && (g) <= 18) words[((g) + 1) & 3] = _mm_sha1msg2_epu32(words[((g) + 1) & 3], words[(g) & 3]); \\
        abcd = _mm_sha1rnds4_epu32(abcd, one, (g) / 5); \\
        if ((g) >= 1 && (g) <= 16) words[((g) + 3) & 3] = _mm_sha1msg1_epu32(words[((g) + 3) & 3], words[(g) & 3]); \\
        if ((g) >= 2 && (g) <= 17) words[((g) + 2) & 3] = _mm_xor_si128(words[((g) + 2) & 3], words[(g) & 3]); \\
        } while (0)

    __attribute__((target("sha,sse4.1,ssse3")))
    static void sha1_blocks_fast(uint32_t *state, const uint8_t *at, size_t count) {
        const __m128i order = _mm_set_epi64x(0x0001020304050607LL, 0x08090A0B0C0D0E0FLL);
        __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0x1B);
        __m128i even = _mm_set_epi32((int)state[4], 0, 0, 0), odd, abcd_before, even_before, words[4];
        for (; count; count--, at += 64) {
            int i;
            abcd_before = abcd;
            even_before = even;
            for (i = 0; i < 4; i++) words[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(at + 16 * i)), order);
            SHA1_GROUP(0, even, odd); SHA1_GROUP(1, odd, even); SHA1_GROUP(2, even, odd); SHA1_GROUP(3, odd, even);
            SHA1_GROUP(4, even, odd); SHA1_GROUP(5, odd, even); SHA1_GROUP(6, even, odd); SHA1_GROUP(7, odd, even);
            SHA1_GROUP(8, even, odd); SHA1_GROUP(9, odd, even); SHA1_GROUP(10, even, odd); SHA1_GROUP(11, odd, even);
            SHA1_GROUP(12, even, odd); SHA1_GROUP(13, odd, even); SHA1_GROUP(14, even, odd); SHA1_GROUP(15, odd, even);
            SHA1_GROUP(16, even, odd); SHA1_GROUP(17, odd, even); SHA1_GROUP(18, even, odd); SHA1_GROUP(19, odd, even);
            even = _mm_sha1nexte_epu32(even, even_before);
            abcd = _mm_add_epi32(abcd, abcd_before);
        }
        _mm_storeu_si128((__m128i *)state, _mm_shuffle_epi32(abcd, 0x1B));
        state[4] = (uint32_t)_mm_extract_epi32(even, 3);
    }
    #else
    #define sha1_is_fast() 0
    #define sha1_blocks_fast sha1_blocks_plain
    #endif

    static void sha1_blocks(uint32_t *state, const uint8_t *at, size_t count) {
        if (sha1_is_fast()) sha1_blocks_fast(state, at, count);
        else sha1_blocks_plain(state, at, count);
    }
    """
    void sha1_blocks(uint32_t *state, const uint8_t *at, size_t count) noexcept nogil
    void sha1_blocks_plain(uint32_t *state, const uint8_t *at, size_t count) noexcept nogil
