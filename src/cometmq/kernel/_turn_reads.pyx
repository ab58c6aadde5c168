# cython: language_level=3, boundscheck=False, wraparound=False, auto_pickle=False
"""The compiled twin of `turn_reads`, and what takes and answers what connections brought in a turn."""

from collections import deque

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from cometmq.kernel._bytes cimport get_u32
from cometmq.kernel._column_records cimport answers_to
from cometmq.kernel._columns cimport SendBatch
from cometmq.kernel._lane_table cimport LaneTable
from cometmq.kernel._layouts cimport FRAME_HEAD_SIZE
from cometmq.kernel._taking cimport take
from cometmq.kernel.turn_reads import DIRECT_SIZE_MAX as SIZE_MAX, PeerState

cdef extern from "<unistd.h>":
    Py_ssize_t write(int fd, const void *at, size_t size)

cdef enum:
    LENGTH_SIZE = 4
    DIRECT_SIZE_MAX = 65536
    QUIET = 0
    QUEUED = 1

assert DIRECT_SIZE_MAX == SIZE_MAX
assert (QUIET, QUEUED) == (PeerState.QUIET, PeerState.QUEUED)


cdef class TurnReads:
    """See `cometmq.kernel.turn_reads.TurnReads`."""

    def __init__(self, Py_ssize_t size_max):
        self.fresh = deque()
        self._add, self._forget = self.fresh.append, self.fresh.popleft
        self.size_max = size_max

    @classmethod
    def __class_getitem__(cls, _of_peer):
        return cls

    def begin_soon(self):
        """See `cometmq.kernel.turn_reads.TurnReads.begin_soon`."""
        raise NotImplementedError

    def answer_ahead(self, data, peer):
        """See `cometmq.kernel.turn_reads.TurnReads.answer_ahead`."""
        raise NotImplementedError

    def take_alone(self):
        """See `cometmq.kernel.turn_reads.TurnReads.take_alone`."""
        raise NotImplementedError

    def work_off(self):
        """See `cometmq.kernel.turn_reads.TurnReads.work_off`."""
        raise NotImplementedError


cdef class PeerEnd:
    """See `cometmq.kernel.turn_reads.PeerEnd`."""

    def __init__(self, TurnReads turn not None, bytes host not None):
        self.turn, self.host, self.unread = turn, host, b""
        self.direct_fd = -1

    def data_received(self, bytes data not None):
        """See `cometmq.kernel.turn_reads.PeerEnd.data_received`."""
        cdef TurnReads turn = self.turn
        self.has_read = True
        if self.asks_alone:
            self.asks_alone = self.state == QUIET and turn.answer_ahead(data, self)
            if self.asks_alone:
                return
        if self.state != QUIET:
            self.read_more(data)
            return
        self.unread = data
        self.state = QUEUED
        turn._add(self)
        turn.size += PyBytes_GET_SIZE(data)
        if turn.lone_reads:
            turn.take_alone()
            return
        if not turn.is_due:
            turn.begin_soon()
        if turn.size > turn.size_max:
            turn.work_off()

    def read_more(self, data):
        """See `cometmq.kernel.turn_reads.PeerEnd.read_more`."""
        raise NotImplementedError

    def write_at_once(self, data):
        """See `cometmq.kernel.turn_reads.PeerEnd.write_at_once`."""
        _write(self, data)

    def write_otherwise(self, data):
        """See `cometmq.kernel.turn_reads.PeerEnd.write_otherwise`."""
        raise NotImplementedError


cdef int _write(PeerEnd peer, data) except -1:
    """Give bytes to the socket, and what it has not taken to whoever knows what to do."""
    cdef Py_ssize_t size, sent
    if peer.direct_fd >= 0 and type(data) is bytes:
        size = PyBytes_GET_SIZE(data)
        if size <= DIRECT_SIZE_MAX:
            # Its socket never makes anybody wait, so nobody else runs meanwhile: to let them costs as much as to make the answer.
            sent = write(peer.direct_fd, PyBytes_AS_STRING(data), size)
            if sent == size:
                return 0
            if sent > 0:
                data = data[sent:]
    peer.write_otherwise(data)
    return 0


def take_reads(
    TurnReads turn not None, SendBatch batch not None, list ends not None, Py_ssize_t count_max,
    Py_ssize_t size_min, LaneTable straight not None, tuple limits not None,
):
    """See `cometmq.kernel.declines.take_reads`."""
    cdef object fresh = turn.fresh
    cdef Py_ssize_t size, last = batch.request_count + count_max
    cdef PeerEnd peer
    cdef bytes data
    while fresh and batch.request_count < last and turn.size >= size_min:
        peer = <PeerEnd?>fresh[0]
        data = peer.unread
        size = PyBytes_GET_SIZE(data)
        if not peer.sends_alone or size < FRAME_HEAD_SIZE:
            return
        if <Py_ssize_t>get_u32(<const uint8_t *>PyBytes_AS_STRING(data)) + LENGTH_SIZE != size:
            return
        if take(batch, data, 0, 1, peer.host, straight, limits, None) != size:
            peer.sends_alone = False
            return
        turn._forget()
        ends.append((peer, batch.count))
        peer.unread = b""
        peer.state = QUIET
        turn.size -= size


def answer_reads(SendBatch batch not None, list ends not None, str host not None):
    """See `cometmq.kernel.declines.answer_reads`."""
    cdef Py_ssize_t first = 0, last
    cdef PeerEnd peer
    for end in ends:
        peer = <PeerEnd?>(<tuple?>end)[0]
        last = (<tuple>end)[1]
        _write(peer, answers_to(batch, first, last, host))
        first = last
