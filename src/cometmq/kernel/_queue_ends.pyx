# cython: language_level=3, auto_pickle=False
"""The compiled twin of `queue_ends`: where a queue goes on, and its newest entries."""


cdef class QueueEnd:
    """See `cometmq.kernel.queue_ends.QueueEnd`."""

    def __init__(self, queue_id):
        self.queue_id = queue_id
        self.min_offset = self.tail_start = self.next_offset = self.max_offset = 0
        self.tail = bytearray()
        self.watched = False
