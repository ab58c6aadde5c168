# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, auto_pickle=False
"""The compiled twin of `columns.SendBatch`: the sends of a turn as rows of numbers and places, without an object of each."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

cdef enum:
    ROOM_MIN = 16
    TEXT_ROOM_MIN = 2048


cdef class SendBatch:
    """See `cometmq.kernel.columns.SendBatch`."""

    def __init__(self, bytes suffix not None):
        self.suffix = suffix
        self.lanes, self.hosts, self.buffers = [], [], []

    @classmethod
    def __class_getitem__(cls, _queue):
        return cls

    def __dealloc__(self):
        PyMem_Free(self.rows)
        PyMem_Free(self.text)

    def __len__(self):
        return self.count

    cdef Row *new_row(self) except NULL:
        """Give room for a row behind the last; it counts once `count` says so."""
        cdef Py_ssize_t room
        cdef void *rows
        if self.count == self.room:
            room = max(ROOM_MIN, 2 * self.room)
            rows = PyMem_Realloc(self.rows, room * sizeof(Row))
            if rows is NULL:
                raise MemoryError
            self.rows, self.room = <Row *>rows, room
        return self.rows + self.count

    cdef uint8_t *room_for(self, Py_ssize_t size) except NULL:
        """Give room for so many bytes of text behind what is there; they count once `text_size` says so."""
        cdef Py_ssize_t room
        cdef void *text
        if self.text is NULL or self.text_size + size > self.text_room:
            room = max(TEXT_ROOM_MIN, self.text_size + size, 2 * self.text_room)
            text = PyMem_Realloc(self.text, room)
            if text is NULL:
                raise MemoryError
            self.text, self.text_room = <uint8_t *>text, room
        return self.text + self.text_size

    cdef bytes block(self, Row *row):
        """The properties of a send, with the broker's own behind them."""
        cdef Py_ssize_t suffix_size = PyBytes_GET_SIZE(self.suffix)
        cdef bytes block = PyBytes_FromStringAndSize(NULL, row.block_size + suffix_size)
        cdef char *at = PyBytes_AS_STRING(block)
        memcpy(at, self.text + row.block_at, row.block_size)
        memcpy(at + row.block_size, PyBytes_AS_STRING(self.suffix), suffix_size)
        return block

    def puts(self):
        """See `cometmq.kernel.columns.SendBatch.puts`."""
        cdef list puts = []
        cdef Py_ssize_t index
        cdef Row *row
        cdef tuple lane
        for index in range(self.count):
            row, lane = self.rows + index, <tuple>self.lanes[index]
            puts.append((
                lane[0], lane[1], PyBytes_FromStringAndSize(<const char *>row.body, row.body_size),
                self.block(row), row.tags_code, row.flag, 0, row.born_ms, self.hosts[row.host],
                row.tried, 0, 0,
            ))
        return puts

    def pending(self, Py_ssize_t first, Py_ssize_t last):
        """See `cometmq.kernel.columns.SendBatch.pending`."""
        cdef list pending = []
        cdef Py_ssize_t index
        cdef Row *row
        for index in range(max(first, 0), min(last, self.count)):
            row = self.rows + index
            pending.append((
                row.opaque,
                None if row.is_oneway else (<tuple>self.lanes[index])[2],
                PyUnicode_DecodeUTF8(<const char *>self.text + row.key_at, row.key_size, NULL),
            ))
        return pending

    def results(self, Py_ssize_t first, Py_ssize_t last):
        """See `cometmq.kernel.columns.SendBatch.results`."""
        cdef list results = []
        cdef Py_ssize_t index
        cdef Row *row
        for index in range(max(first, 0), min(last, self.packed)):
            row = self.rows + index
            results.append((row.queue_offset, row.physical_offset, row.size))
        return results

    def arrivals(self):
        """See `cometmq.kernel.columns.SendBatch.arrivals`."""
        cdef list arrivals = []
        cdef Py_ssize_t index
        cdef Row *row
        for index in range(self.packed):
            row = self.rows + index
            arrivals.append((
                (<tuple>self.lanes[index])[0], row.queue_offset, row.physical_offset, row.size,
                row.tags_code,
            ))
        return arrivals

    @property
    def start(self):
        """See `cometmq.kernel.columns.SendBatch.start`."""
        return self.rows[0].physical_offset if self.packed else 0

    def end_of(self, Py_ssize_t last):
        """See `cometmq.kernel.columns.SendBatch.end_of`."""
        if not 0 < last <= self.packed:
            raise IndexError("a send that is packed")
        return self.rows[last - 1].physical_offset + self.rows[last - 1].size
