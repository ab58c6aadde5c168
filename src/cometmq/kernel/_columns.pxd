# The columns of sends, as the compiled kernel has them: a row of numbers and places for each.
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, int32_t, uint8_t


cdef enum:
    EXTRA = 5  # Of a lane (`rows.Lane`).
    DELAY = 6
    TIMING = 7
    # A timed message's own properties end with TIMER_OUT_MS: so many digits, and the byte that ends it.
    SLOT_DIGITS = 13


cdef struct Row:
    PyObject *lane  # The row holds it.
    const uint8_t *body  # In one of the batch's buffers.
    Py_ssize_t body_size
    Py_ssize_t block_at  # The properties, in the batch's text.
    Py_ssize_t block_size
    Py_ssize_t key_at  # Their unique key, in the same.
    Py_ssize_t key_size
    Py_ssize_t words_at  # Their keys, words between blanks, in the same.
    Py_ssize_t words_size
    int64_t tags_code
    int64_t born_ms
    int32_t flag
    int32_t tried
    int32_t opaque
    int32_t is_oneway
    int32_t messages  # Of its request; 0 behind the first of them.
    int32_t is_unnamed  # Whether the answer names no unique key.
    Py_ssize_t host  # Its number among the batch's hosts.
    int64_t queue_offset  # These three are known once it is packed.
    int64_t physical_offset
    int64_t size


cdef class SendBatch:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t request_count
    cdef Py_ssize_t packed
    cdef Row *rows
    cdef Py_ssize_t room
    cdef uint8_t *text
    cdef Py_ssize_t text_size
    cdef Py_ssize_t text_room
    cdef bytes suffix
    cdef list hosts
    cdef list buffers

    cdef Row *new_rows(self, Py_ssize_t number) except NULL
    cdef int keep_row(self) except -1
    cdef int give_lane(self, Py_ssize_t first, Py_ssize_t last, tuple lane) except -1
    cdef uint8_t *room_for(self, Py_ssize_t size) except NULL
    cdef bytes block(self, Row *row)
    cdef str answer_start(self, Row *row)
