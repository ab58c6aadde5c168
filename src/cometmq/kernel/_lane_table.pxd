# Lanes by topic and queue, as the compiled kernel finds them.
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t


# A lane for messages that wait is found by the number of their queue and, in the higher bits, the level (`rows.place_of_level`).
cdef enum:
    LEVEL_SHIFT = 32
    HALF_LEVEL = 1024
    TIMED_LEVEL = 1025


cdef struct Slot:
    uint64_t hash
    PyObject *lane  # The table's dict holds it; NULL: the slot is free.


cdef class LaneTable:
    cdef dict of
    cdef Slot *slots
    cdef uint64_t mask
    cdef uint64_t count

    cdef int grow(self) except -1
    cdef int free(self, Slot *slot) noexcept


cdef uint64_t topic_hash(const uint8_t *topic, Py_ssize_t size) except? 0


cdef inline uint64_t lane_hash(uint64_t topic, int64_t queue_id) noexcept nogil:
    """The hash of a lane; those of a topic's lanes differ, for the factor is odd."""
    return topic + <uint64_t>queue_id * 0x9E3779B97F4A7C15ULL


cdef inline Slot *slot_of(LaneTable table, uint64_t hash) noexcept:
    """The slot of a lane with a hash, which may be of another topic; where there is none the free one for it."""
    cdef uint64_t index = hash & table.mask
    while table.slots[index].lane is not NULL and table.slots[index].hash != hash:
        index = (index + 1) & table.mask
    return &table.slots[index]
