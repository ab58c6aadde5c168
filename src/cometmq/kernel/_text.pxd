# Numbers in text, Java's hashes, and values in a record's block of properties.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define FIRST_IS_LOWEST(word) __builtin_bswap64(word)
    #else
    #define FIRST_IS_LOWEST(word) (word)
    #endif
    static const unsigned long long TENS[20] = {
        1ULL, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL, 1000000ULL, 10000000ULL, 100000000ULL, 1000000000ULL,
        10000000000ULL, 100000000000ULL, 1000000000000ULL, 10000000000000ULL, 100000000000000ULL,
        1000000000000000ULL, 10000000000000000ULL, 100000000000000000ULL, 1000000000000000000ULL,
        10000000000000000000ULL};
    """
    uint64_t FIRST_IS_LOWEST(uint64_t word) nogil
    int __builtin_ctzll(unsigned long long word) nogil
    int __builtin_clzll(unsigned long long word) nogil
    const uint64_t TENS[20]


cdef inline uint64_t word_at(const uint8_t *at) noexcept nogil:
    """Eight bytes as a number, of which the first is the lowest."""
    cdef uint64_t word
    memcpy(&word, at, 8)
    return FIRST_IS_LOWEST(word)


cdef inline int first_byte(uint64_t bits) noexcept nogil:
    """Of bytes whose highest bits are given the number of the first."""
    return __builtin_ctzll(bits) >> 3


cdef inline uint64_t json_stops(uint64_t word) noexcept nogil:
    """The highest bits of the bytes at which plain text ends in JSON: a quote, a backslash, one below the blank.

    Less the character that is looked for, or less the first that may be, only such a byte gets its highest bit. One
    behind such a byte may get it, too, so only the first counts.
    """
    return (
        (word ^ 0x2222222222222222ULL) - 0x0101010101010101ULL
        | (word ^ 0x5C5C5C5C5C5C5C5CULL) - 0x0101010101010101ULL
        | word - 0x2020202020202020ULL
    ) & ~word & 0x8080808080808080ULL


cdef inline uint32_t hash_on(uint32_t value, const uint8_t *at, Py_ssize_t size) noexcept nogil:
    """Java's hash of ASCII text, begun with the hash of what stands before it."""
    cdef const uint8_t *end = at + size
    cdef uint64_t word
    while end - at >= 8:  # Of eight letters at once the hashes of their pairs, then of their fours: 31 and its powers.
        word = word_at(at)
        word = (word & 0x00FF00FF00FF00FFULL) * 31 + (word >> 8 & 0x00FF00FF00FF00FFULL)
        word = (word & 0x0000FFFF0000FFFFULL) * 961 + (word >> 16 & 0x0000FFFF0000FFFFULL)
        value = value * <uint32_t>2487512833 + <uint32_t>word * <uint32_t>923521 + <uint32_t>(word >> 32)
        at += 8
    while at < end:
        value = value * 31 + at[0]
        at += 1
    return value


cdef inline bint is_ascii(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    cdef const uint8_t *end = at + size
    cdef uint64_t seen = 0
    while end - at >= 8:
        seen |= word_at(at)
        at += 8
    while at < end:
        seen |= at[0]
        at += 1
    return not seen & 0x8080808080808080ULL


cdef inline Py_ssize_t property_size(const uint8_t *at, Py_ssize_t left) noexcept nogil:
    """The size of the property that stands there, without what ends it."""
    cdef const uint8_t *end = <const uint8_t *>memchr(at, 2, left)
    return left if end is NULL else end - at


cdef inline bint is_named(
    const uint8_t *at, Py_ssize_t size, const char *name, Py_ssize_t name_size
) noexcept nogil:
    """Whether a property has this name, which ends with \1, and is not empty."""
    return size > name_size and at[0] == <uint8_t>name[0] and memcmp(at, name, name_size) == 0


cdef inline const uint8_t *last_value(
    const uint8_t *block, Py_ssize_t block_size, const char *name, Py_ssize_t name_size,
    Py_ssize_t *size,
) noexcept nogil:
    """The last value of a property that is not empty; the name ends with \1."""
    cdef const uint8_t *at = block
    cdef const uint8_t *end = block + block_size
    cdef const uint8_t *found = NULL
    cdef Py_ssize_t piece_size
    while at < end:
        piece_size = property_size(at, end - at)
        if is_named(at, piece_size, name, name_size):
            found, size[0] = at + name_size, piece_size - name_size
        at += piece_size + 1
    return found


cdef inline int64_t get_decimal(const uint8_t *at, Py_ssize_t size, bint *is_good) noexcept nogil:
    """A number as JSON writes it, of at most 18 digits."""
    cdef int64_t value = 0
    cdef bint is_negative = size > 0 and at[0] == c"-"
    cdef Py_ssize_t i = is_negative
    is_good[0] = i < size <= i + 18 and (at[i] != c"0" or (size == 1))
    while i < size:
        if not c"0" <= at[i] <= c"9":
            is_good[0] = False
            return 0
        value = value * 10 + (at[i] - c"0")
        i += 1
    return -value if is_negative else value


cdef inline int digit_count(uint64_t value) noexcept nogil:
    """How many digits a number has: its bits say that, but for one."""
    cdef int count
    value |= 1  # Of as many digits, and not 0.
    count = (64 - __builtin_clzll(value)) * 1233 >> 12
    return count + (value >= TENS[count]) if count < 20 else 20


cdef inline int decimal_size(int64_t value) noexcept nogil:
    """How many bytes `put_decimal` writes."""
    return digit_count(0 - <uint64_t>value) + 1 if value < 0 else digit_count(value)


cdef inline uint8_t *put_decimal(uint8_t *at, int64_t value) noexcept nogil:
    """Write a number as JSON does; gives the place behind it."""
    cdef uint64_t rest = value
    cdef uint8_t *digit
    cdef uint8_t *end
    if value < 0:
        at[0] = c"-"
        at += 1
        rest = 0 - rest
    digit = end = at + digit_count(rest)
    while digit > at:
        digit -= 1
        digit[0] = c"0" + rest % 10
        rest //= 10
    return end


cdef inline int hex_digit(uint8_t digit) noexcept nogil:
    if c"0" <= digit <= c"9":
        return digit - c"0"
    digit |= 0x20
    return digit - c"a" + 10 if c"a" <= digit <= c"f" else -1


cdef inline int short_escape(uint8_t letter) noexcept nogil:
    if letter == c'"' or letter == c"\\" or letter == c"/":
        return letter
    if letter == c"n":
        return 10
    if letter == c"t":
        return 9
    if letter == c"r":
        return 13
    if letter == c"b":
        return 8
    if letter == c"f":
        return 12
    return 0
