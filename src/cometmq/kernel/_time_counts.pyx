# cython: language_level=3, auto_pickle=False, boundscheck=False, wraparound=False
"""The compiled twin of `time_counts`: how often something took how long."""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t


cdef class TimeCounts:
    """See `cometmq.kernel.time_counts.TimeCounts`."""

    cdef int64_t *bounds  # The counts of the classes are behind them.
    cdef int64_t *numbers
    cdef Py_ssize_t size  # Bounds.
    cdef readonly int64_t max_us
    cdef readonly int64_t total_us
    cdef readonly int64_t count

    def __init__(self, bounds):
        cdef Py_ssize_t index
        if self.bounds is not NULL:
            raise RuntimeError("it counts already")
        self.size = len(bounds)
        self.bounds = <int64_t *>PyMem_Calloc(2 * self.size + 1, sizeof(int64_t))
        if self.bounds is NULL:
            raise MemoryError
        self.numbers = self.bounds + self.size
        for index in range(self.size):
            self.bounds[index] = bounds[index]

    def __dealloc__(self):
        PyMem_Free(self.bounds)

    @property
    def counts(self):
        """See `cometmq.kernel.time_counts.TimeCounts`."""
        cdef Py_ssize_t index
        return [] if self.bounds is NULL else [self.numbers[index] for index in range(self.size + 1)]

    def add(self, int64_t time_us, int64_t count=1):
        """See `cometmq.kernel.time_counts.TimeCounts.add`."""
        cdef Py_ssize_t low = 0, high = self.size, middle
        if self.bounds is NULL:
            raise RuntimeError("it has no classes")
        while low < high:  # As `bisect_left`.
            middle = (low + high) // 2
            if self.bounds[middle] < time_us:
                low = middle + 1
            else:
                high = middle
        self.numbers[low] += count
        self.count += count
        self.total_us += time_us * count
        self.max_us = max(self.max_us, time_us)

    def add_all(self, TimeCounts other not None):
        """See `cometmq.kernel.time_counts.TimeCounts.add_all`."""
        cdef Py_ssize_t index
        if self.size != other.size or self.bounds is NULL or other.bounds is NULL:
            raise ValueError("other classes")
        for index in range(self.size + 1):
            self.numbers[index] += other.numbers[index]
        self.count += other.count
        self.total_us += other.total_us
        self.max_us = max(self.max_us, other.max_us)
