# Filters of pulls, as the compiled kernel has them.
from libc.stdint cimport int64_t, uint8_t

cdef enum:
    ROWS_MAX = 64
    TEXTS_MAX = 256
    DECLINED = -2  # A result of a filter; -1 is unknown, which counts as false in the end.


cdef struct Text:
    const uint8_t *at
    Py_ssize_t size


cdef struct Row:
    int test
    int signs
    int rest  # Rows behind this one that belong to it.
    bint is_negated
    Text name  # Ends with \1.
    int64_t integer
    double number
    int first_text
    int text_count


cdef class TagCodes:
    cdef bytes kept  # It has the codes, in order.
    cdef const int64_t *codes
    cdef Py_ssize_t count

    cdef bint has(self, int64_t code) noexcept


cdef class PropertyFilter:
    cdef tuple rows  # They keep the texts.
    cdef int count
    cdef Row *tests
    cdef Text *texts

    cdef int result(self, const uint8_t *block, Py_ssize_t size) noexcept
    cdef int _result(self, int index, const uint8_t *block, Py_ssize_t size) noexcept
    cdef int _chain(self, int index, const uint8_t *block, Py_ssize_t size) noexcept
    cdef int _of_value(self, Row *row, const uint8_t *value, Py_ssize_t size) noexcept
