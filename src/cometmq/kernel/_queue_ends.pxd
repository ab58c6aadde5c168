# What the compiled kernel knows of a queue.


cdef class QueueEnd:
    cdef public object queue_id
    cdef public object next_offset
    cdef public object max_offset
    cdef public bytearray tail
    cdef public bint watched
    cdef public object tally
