# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True, auto_pickle=False
"""The compiled twin of `filters`: tags codes and conditions on properties, for each message of a pull."""

from array import array

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from cometmq.kernel._text cimport TENS, property_size
from cometmq.kernel.filters import ROWS_MAX as ROWS, TEXTS_MAX as TEXTS, Test

cdef extern from "string.h":
    void *memmem(const void *text, size_t size, const void *part, size_t part_size) nogil

cdef enum:
    AND = 0
    OR = 1
    NOT = 2
    CONSTANT = 3
    MISSING = 4
    NEVER = 5
    AMONG = 6
    CONTAINS = 7
    STARTS = 8
    ENDS = 9
    INT32 = 10
    INT64 = 11
    DOUBLE = 12
    UNKNOWN = -1
    # Relations of a value to a number, which `signs` adds up.
    LESS = 1
    EQUAL = 2
    GREATER = 4
    # Digits of a number that every 32-bit integer, 64-bit integer and double has room for.
    INT32_DIGITS = 9
    INT64_DIGITS = 18
    DOUBLE_DIGITS = 15
    FEW_CODES = 8  # So many are compared one after the other.

assert (ROWS_MAX, TEXTS_MAX) == (ROWS, TEXTS)
assert list(Test) == list(range(AND, DOUBLE + 1))


cdef class TagCodes:
    """See `cometmq.kernel.filters.TagCodes`."""

    def __init__(self, codes):
        cdef set found = set(codes)
        self.kept = array("q", sorted(found)).tobytes()
        self.codes, self.count = <const int64_t *>PyBytes_AS_STRING(self.kept), len(found)

    def __call__(self, int64_t code):
        return self.has(code)

    cdef bint has(self, int64_t code) noexcept:
        cdef Py_ssize_t low = 0, high = self.count, middle
        while high - low > FEW_CODES:
            middle = (low + high) // 2
            if self.codes[middle] <= code:
                low = middle
            else:
                high = middle
        while low < high:
            if self.codes[low] == code:
                return True
            low += 1
        return False


cdef bint _has_number(const uint8_t *at, Py_ssize_t size, int digits_max, int64_t *value, int *places) noexcept:
    """Read a number as it is mostly written: a minus sign, digits and, with `places`, more behind a point; False for others."""
    cdef const uint8_t *end = at + size
    cdef bint is_negative = size > 0 and at[0] == c"-"
    cdef const uint8_t *point = NULL
    cdef int digits = 0
    cdef int64_t number = 0
    at += is_negative
    while at < end:
        if c"0" <= at[0] <= c"9":
            if digits == digits_max:
                return False
            number = number * 10 + (at[0] - c"0")
            digits += 1
        elif at[0] == c"." and places is not NULL and point is NULL and digits:
            point = at
        else:
            return False
        at += 1
    value[0] = -number if is_negative else number
    if places is not NULL:
        places[0] = 0 if point is NULL else <int>(end - point - 1)
    return digits > 0


cdef inline int _relation(int signs, bint is_less, bint is_equal) noexcept:
    return (signs & (LESS if is_less else EQUAL if is_equal else GREATER)) != 0


cdef class PropertyFilter:
    """See `cometmq.kernel.filters.PropertyFilter`."""

    def __init__(self, tuple rows not None):
        cdef int index = 0, texts = 0
        cdef bytes text
        cdef Py_ssize_t text_count = sum([len(row[3]) for row in rows])
        if self.rows is not None or not 0 < len(rows) <= ROWS_MAX or text_count > TEXTS_MAX:
            raise ValueError("no rows, or too many")
        self.rows = rows
        self.count = <int>len(rows)
        self.tests = <Row *>PyMem_Malloc(self.count * sizeof(Row))
        self.texts = <Text *>PyMem_Malloc((text_count + 1) * sizeof(Text))
        if self.tests is NULL or self.texts is NULL:
            raise MemoryError
        for test, rest, name, some, signs, number, is_negated in rows:
            self.tests[index].test, self.tests[index].rest = test, rest
            if not 0 <= self.tests[index].rest < self.count - index:
                raise ValueError("rows that do not follow")
            text = name
            self.tests[index].name.at = <const uint8_t *>PyBytes_AS_STRING(text)
            self.tests[index].name.size = PyBytes_GET_SIZE(text)
            self.tests[index].signs, self.tests[index].is_negated = signs, is_negated
            self.tests[index].integer = 0 if test == DOUBLE else number
            self.tests[index].number = number
            self.tests[index].first_text, self.tests[index].text_count = texts, len(some)
            for text in some:
                self.texts[texts].at = <const uint8_t *>PyBytes_AS_STRING(text)
                self.texts[texts].size = PyBytes_GET_SIZE(text)
                texts += 1
            index += 1

    def __dealloc__(self):
        PyMem_Free(self.tests)
        PyMem_Free(self.texts)

    def matches(self, bytes block not None):
        """See `cometmq.kernel.filters.PropertyFilter.matches`."""
        cdef int found = self.result(<const uint8_t *>PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block))
        return None if found == DECLINED else found == 1

    cdef int result(self, const uint8_t *block, Py_ssize_t size) noexcept:
        return self._result(0, block, size)

    cdef int _result(self, int index, const uint8_t *block, Py_ssize_t size) noexcept:
        """1, 0, UNKNOWN or DECLINED."""
        cdef Row *row = &self.tests[index]
        cdef const uint8_t *at = block
        cdef const uint8_t *end = block + size
        cdef const uint8_t *value = NULL
        cdef Py_ssize_t piece_size, value_size = 0
        cdef int found
        if row.test == AND or row.test == OR:
            return self._chain(index, block, size)
        if row.test == NOT:
            found = self._result(index + 1, block, size)
            return found if found < 0 else not found
        if row.test == CONSTANT:
            return <int>row.integer
        while at < end:
            piece_size = property_size(at, end - at)
            if (
                piece_size >= row.name.size and at[0] == row.name.at[0]
                and memcmp(at, row.name.at, row.name.size) == 0
            ):
                value, value_size = at + row.name.size, piece_size - row.name.size
            at += piece_size + 1
        if value is not NULL and value_size == 0:
            return DECLINED  # Does not count: an earlier one may.
        return self._of_value(row, value, value_size)

    cdef int _chain(self, int index, const uint8_t *block, Py_ssize_t size) noexcept:
        cdef bint is_any = self.tests[index].test == OR
        cdef int at = index + 1, last = index + self.tests[index].rest, found, all_of = not is_any
        while at <= last:
            found = self._result(at, block, size)
            if found == is_any or found == DECLINED:
                return found
            if found == UNKNOWN:
                all_of = UNKNOWN
            at += 1 + self.tests[at].rest
        return all_of

    cdef int _of_value(self, Row *row, const uint8_t *value, Py_ssize_t size) noexcept:
        cdef Text *text = &self.texts[row.first_text]
        cdef bint is_found = False
        cdef int64_t number = 0
        cdef int index, places = 0
        cdef double real
        if row.test == MISSING:
            return value is NULL
        if value is NULL:
            return 0 if CONTAINS <= row.test <= ENDS else UNKNOWN
        if row.test == NEVER:
            return 0
        if row.test >= INT32:
            if row.test == DOUBLE:
                if not _has_number(value, size, DOUBLE_DIGITS, &number, &places):
                    return DECLINED
                # Both are exact, so the quotient is the double nearest to the text.
                real = <double>number / <double>TENS[places]
                return _relation(row.signs, real < row.number, real == row.number)
            if not _has_number(value, size, INT32_DIGITS if row.test == INT32 else INT64_DIGITS, &number, NULL):
                return DECLINED
            return _relation(row.signs, number < row.integer, number == row.integer)
        if row.test == AMONG:
            for index in range(row.text_count):
                if text[index].size == size and memcmp(text[index].at, value, size) == 0:
                    is_found = True
                    break
        elif row.test == CONTAINS:
            is_found = memmem(value, size, text.at, text.size) is not NULL
        elif size >= text.size:
            is_found = memcmp(value if row.test == STARTS else value + size - text.size, text.at, text.size) == 0
        return is_found != row.is_negated
