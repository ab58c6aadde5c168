# What the compiled kernel knows of a connection, and of a turn of the loop.


cdef class TurnReads:
    cdef readonly object fresh
    cdef public Py_ssize_t size
    cdef public Py_ssize_t size_max
    cdef public Py_ssize_t lone_reads
    cdef public bint is_due
    cdef object _add
    cdef object _forget


cdef class PeerEnd:
    cdef public TurnReads turn
    cdef public bytes host
    cdef public bytes unread
    cdef public bint has_read
    cdef public int state
    cdef public bint sends_alone
    cdef public bint asks_alone
    cdef public int direct_fd
