# What the compiled kernel knows of a file of the log.
from libc.stdint cimport int64_t


cdef class MappedFile:
    cdef public int64_t start
    cdef public int64_t end
    cdef public object mapped
