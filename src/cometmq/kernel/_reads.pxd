# Entries that a read takes, as the compiled kernel has them.
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    ENTRIES_MAX = 1024  # The room of an array.


cdef struct ChosenRecords:
    # How many records, their bytes, and the physical offset behind the last that was read; entries looked at; where each record stands,
    # and its size, which is not asked again of the file: somebody else may write there.
    Py_ssize_t count
    int64_t size
    int64_t end
    Py_ssize_t looked
    int64_t effort  # Bytes of entries, and of properties times rows of their filter, that were looked at.
    int64_t places[ENTRIES_MAX]
    int32_t sizes[ENTRIES_MAX]


cdef bint choose_records(
    ChosenRecords *chosen, const uint8_t *at, const uint8_t *last, Py_ssize_t count_max, int64_t size_max, int64_t log_start,
    object match, const uint8_t *log, int64_t base, int64_t limit,
) except -1
cdef uint8_t *put_records(uint8_t *at, ChosenRecords *chosen, const uint8_t *log, int64_t base) noexcept nogil
