# Numbers in text, Java's hashes, and values in a record's block of properties.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


cdef inline uint32_t hash_on(uint32_t value, const uint8_t *at, Py_ssize_t size) noexcept nogil:
    """Java's hash of ASCII text, begun with the hash of what stands before it."""
    cdef Py_ssize_t i
    for i in range(size):
        value = value * 31 + at[i]
    return value


cdef inline bint is_ascii(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint8_t seen = 0
    for i in range(size):
        seen |= at[i]
    return seen < 128


cdef inline const uint8_t *last_value(
    const uint8_t *block, Py_ssize_t block_size, const char *name, Py_ssize_t name_size,
    Py_ssize_t *size,
) noexcept nogil:
    """The last value of a property that is not empty; the name ends with \1."""
    cdef const uint8_t *at = block
    cdef const uint8_t *end = block + block_size
    cdef const uint8_t *piece_end
    cdef const uint8_t *found = NULL
    while at < end:
        piece_end = <const uint8_t *>memchr(at, 2, end - at)
        if piece_end is NULL:
            piece_end = end
        if piece_end - at > name_size and memcmp(at, name, name_size) == 0:
            found, size[0] = at + name_size, piece_end - at - name_size
        at = piece_end + 1
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


cdef inline uint8_t *put_decimal(uint8_t *at, int64_t value) noexcept nogil:
    """Write a number as JSON does; gives the place behind it."""
    cdef uint8_t digits[20]
    cdef int count = 0
    cdef uint64_t rest = value
    if value < 0:
        at[0] = c"-"
        at += 1
        rest = 0 - rest
    while True:
        digits[count] = c"0" + rest % 10
        rest //= 10
        count += 1
        if rest == 0:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    return at


cdef inline int decimal_size(int64_t value) noexcept nogil:
    """How many bytes that takes."""
    cdef int count = 1 + (value < 0)
    cdef uint64_t rest = value
    if value < 0:
        rest = 0 - rest
    while rest >= 10:
        rest //= 10
        count += 1
    return count


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
