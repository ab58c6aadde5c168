# cython: language_level=3, auto_pickle=False
"""The compiled twin of `mapped_files`: where a file of the log stands, and its bytes."""


cdef class MappedFile:
    """See `cometmq.kernel.mapped_files.MappedFile`."""

    def __init__(self, start, end):
        self.start, self.end = start, end
