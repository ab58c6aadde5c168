# What the compiled kernel knows of a queue.
from libc.stdint cimport int64_t


cdef class QueueEnd:
    cdef public object queue_id
    cdef public int64_t next_offset
    cdef public int64_t max_offset
    cdef public bytearray tail
    cdef public bint watched
    cdef public object tally
    cdef public int64_t min_offset
    cdef public int64_t tail_start
