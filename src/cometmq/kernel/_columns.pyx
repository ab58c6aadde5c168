# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, auto_pickle=False
"""`declines.SendBatch`, compiled: the sends of a turn as rows of numbers and places, without an object of each."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t

from base64 import urlsafe_b64encode

from cometmq.kernel.rows import NO_HANDLE

# Most turns of a client that waits for each answer have one send; room for it is of the sizes that Python keeps.
cdef enum:
    ROOM_MIN = 2
    TEXT_ROOM_MIN = 512
    GROWTH = 4


cdef class SendBatch:
    """See `cometmq.kernel.declines.SendBatch`."""

    def __init__(self, bytes suffix not None):
        self.suffix = suffix
        self.hosts, self.buffers = [], []

    @classmethod
    def __class_getitem__(cls, _queue):
        return cls

    def __dealloc__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            Py_DECREF(<object>self.rows[index].lane)
        PyMem_Free(self.rows)
        PyMem_Free(self.text)

    def __len__(self):
        return self.count

    cdef Row *new_rows(self, Py_ssize_t number) except NULL:
        """Give room for so many rows behind the last; each counts once `count` says so."""
        cdef Py_ssize_t room
        cdef void *rows
        if self.count + number > self.room:
            room = max(ROOM_MIN, GROWTH * self.room, self.count + number)
            rows = PyMem_Realloc(self.rows, room * sizeof(Row))
            if rows is NULL:
                raise MemoryError
            self.rows, self.room = <Row *>rows, room
        return self.rows + self.count

    cdef int keep_row(self) except -1:
        """Count the next row of those that there is room for; who calls gives it its lane, or lets it go."""
        self.text_size += self.rows[self.count].block_size
        self.request_count += self.rows[self.count].messages > 0
        self.count += 1
        return 0

    cdef int give_lane(self, Py_ssize_t first, Py_ssize_t last, tuple lane) except -1:
        """Give the rows of a request the lane of their queue."""
        cdef Py_ssize_t index
        for index in range(first, last):
            Py_INCREF(lane)
            self.rows[index].lane = <PyObject *>lane
        return 0

    cdef uint8_t *room_for(self, Py_ssize_t size) except NULL:
        """Give room for so many bytes of text behind what is there; they count once `text_size` says so."""
        cdef Py_ssize_t room
        cdef void *text
        if self.text is NULL or self.text_size + size > self.text_room:
            room = max(TEXT_ROOM_MIN, self.text_size + size, GROWTH * self.text_room)
            text = PyMem_Realloc(self.text, room)
            if text is NULL:
                raise MemoryError
            self.text, self.text_room = <uint8_t *>text, room
        return self.text + self.text_size

    cdef bytes block(self, Row *row):
        """The properties of a send, with its lane's and the broker's own behind them."""
        cdef bytes own = PyBytes_FromStringAndSize(<const char *>self.text + row.block_at, row.block_size)
        return own + <bytes>(<tuple>row.lane)[EXTRA] + self.suffix

    cdef str answer_start(self, Row *row):
        """The start of the answer to a request; that to a timed message has its recall handle (`codec.recall_handle`)."""
        cdef tuple lane = <tuple>row.lane
        cdef tuple timing = <tuple>lane[TIMING]
        cdef const char *slot_ms = <const char *>self.text + row.block_at + row.block_size - 1 - SLOT_DIGITS
        if timing is None:
            return lane[2]
        words = timing[1] + b"%d " % (int(slot_ms[:SLOT_DIGITS]) + 1)
        words += PyBytes_FromStringAndSize(<const char *>self.text + row.key_at, row.key_size)
        return lane[2].replace(NO_HANDLE, NO_HANDLE[:-1] + urlsafe_b64encode(words).decode() + '"', 1)

    def puts(self):
        """See `cometmq.kernel.declines.SendBatch.puts`."""
        cdef list puts = []
        cdef Py_ssize_t index
        cdef Row *row
        cdef tuple lane
        for index in range(self.count):
            row = self.rows + index
            lane = <tuple>row.lane
            puts.append((
                lane[0], lane[1], PyBytes_FromStringAndSize(<const char *>row.body, row.body_size),
                self.block(row), None if lane[DELAY] >= 0 else row.tags_code, row.flag, 0, row.born_ms, self.hosts[row.host],
                row.tried, 0, 0,
            ))
        return puts

    def requests(self, Py_ssize_t first, Py_ssize_t last):
        """See `cometmq.kernel.declines.SendBatch.requests`."""
        cdef Py_ssize_t index
        return [
            (index, self.rows[index].messages)
            for index in range(max(first, 0), min(last, self.count))
            if self.rows[index].messages
        ]

    def pending(self, Py_ssize_t first, Py_ssize_t last):
        """See `cometmq.kernel.declines.SendBatch.pending`."""
        cdef list pending = []
        cdef Py_ssize_t index, key_size
        cdef Row *row
        for index in range(max(first, 0), min(last, self.count)):
            row = self.rows + index
            if not row.messages:
                continue
            key_size = 0 if row.is_unnamed else row.key_size
            pending.append((
                row.opaque,
                None if row.is_oneway else self.answer_start(row),
                PyUnicode_DecodeUTF8(<const char *>self.text + row.key_at, key_size, NULL),
            ))
        return pending

    def results(self, Py_ssize_t first, Py_ssize_t last):
        """See `cometmq.kernel.declines.SendBatch.results`."""
        cdef list results = []
        cdef Py_ssize_t index
        cdef Row *row
        for index in range(max(first, 0), min(last, self.packed)):
            row = self.rows + index
            results.append((row.queue_offset, row.physical_offset, row.size))
        return results

    def arrivals(self):
        """See `cometmq.kernel.declines.SendBatch.arrivals`."""
        cdef list arrivals = []
        cdef Py_ssize_t index
        cdef Row *row
        for index in range(self.packed):
            row = self.rows + index
            arrivals.append((
                (<tuple>row.lane)[0], row.queue_offset, row.physical_offset, row.size,
                row.tags_code,
            ))
        return arrivals

    @property
    def start(self):
        """See `cometmq.kernel.declines.SendBatch.start`."""
        return self.rows[0].physical_offset if self.packed else 0

    def end_of(self, Py_ssize_t last):
        """See `cometmq.kernel.declines.SendBatch.end_of`."""
        if not 0 < last <= self.packed:
            raise IndexError("a send that is packed")
        return self.rows[last - 1].physical_offset + self.rows[last - 1].size
