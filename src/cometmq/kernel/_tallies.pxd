# Numbers that a turn adds to, as the compiled kernel has them.
from libc.stdint cimport int64_t

cdef enum:
    CLASSES = 7  # Of message sizes.


cdef class Tally:
    # What each send changes stands first: of 80,000 it is two lines of a cache, or three.
    cdef readonly Tally above
    cdef readonly int64_t count
    cdef readonly int64_t size
    cdef readonly int64_t time_us
    cdef readonly int64_t times
    cdef bint is_sized
    cdef bint is_fresh
    cdef int64_t classes[CLASSES]
    cdef list fresh
    cdef readonly object of
    cdef public object kept

    cdef int add_all(
        self, int64_t count, int64_t size, int64_t time_us, int64_t times, int64_t *classes
    ) except -1
    cdef int begin(self) except -1
