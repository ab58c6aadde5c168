# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, auto_pickle=False
"""`declines.LaneTable`, compiled: beside the dicts a table whose places can be fetched ahead, as those of a dict cannot."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

cdef enum:
    SLOTS_MIN = 64  # A power of two, as all numbers of slots.


cdef uint64_t topic_hash(const uint8_t *topic, Py_ssize_t size) except? 0:
    """The hash of a topic: Python's, so that who names topics cannot have them meet."""
    return <uint64_t>hash(PyBytes_FromStringAndSize(<const char *>topic, size))


cdef uint64_t _hash_of(str topic) except? 0:
    cdef bytes name = topic.encode()
    return topic_hash(<const uint8_t *>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))


cdef Slot *_free_slots(uint64_t count) except NULL:
    cdef void *slots = PyMem_Calloc(count, sizeof(Slot))
    if slots is NULL:
        raise MemoryError
    return <Slot *>slots


cdef class LaneTable:
    """See `cometmq.kernel.declines.LaneTable`."""

    def __cinit__(self):
        self.of = {}
        self.slots, self.mask = _free_slots(SLOTS_MIN), SLOTS_MIN - 1

    @classmethod
    def __class_getitem__(cls, _queue):
        return cls

    def __dealloc__(self):
        PyMem_Free(self.slots)

    def keep(self, str topic not None, int64_t queue_id, lane not None):
        """See `cometmq.kernel.declines.LaneTable.keep`."""
        cdef uint64_t hash = lane_hash(_hash_of(topic), queue_id)
        cdef dict queues
        cdef object before  # Lives until its slot has another.
        cdef Slot *slot
        if not isinstance(lane, tuple) or len(lane) != 8:
            raise TypeError("a lane")
        for part in (lane[1], lane[4], lane[5]):
            if type(part) is not bytes:
                raise TypeError("a lane's topics and properties are bytes")
        if lane[7] is not None and not (isinstance(lane[7], tuple) and len(lane[7]) == 2):
            raise TypeError("a lane's timing")
        if 4 * self.count > 3 * self.mask:
            self.grow()
        queues = self.of.setdefault(topic, {})
        before = queues.get(str(queue_id))
        queues[str(queue_id)] = lane
        slot = slot_of(self, hash)
        self.count += slot.lane is NULL
        slot.hash, slot.lane = hash, <PyObject *>lane

    def forget(self, str topic not None):
        """See `cometmq.kernel.declines.LaneTable.forget`."""
        cdef dict queues = self.of.get(topic)
        cdef uint64_t hash
        cdef Slot *slot
        if queues is None:
            return
        hash = _hash_of(topic)
        for queue_id, lane in queues.items():
            slot = slot_of(self, lane_hash(hash, int(queue_id)))
            if slot.lane is <PyObject *>lane:
                self.free(slot)
        del self.of[topic]

    def clear(self):
        """See `cometmq.kernel.declines.LaneTable.clear`."""
        memset(self.slots, 0, (self.mask + 1) * sizeof(Slot))
        self.count = 0
        self.of.clear()

    cdef int grow(self) except -1:
        """Have twice as many slots."""
        cdef Slot *before = self.slots
        cdef uint64_t index, size = self.mask + 1
        self.slots, self.mask = _free_slots(2 * size), 2 * size - 1
        for index in range(size):
            if before[index].lane is not NULL:
                slot_of(self, before[index].hash)[0] = before[index]
        PyMem_Free(before)
        return 0

    cdef int free(self, Slot *slot) noexcept:
        """Free a slot; lanes behind it that would not be found any more move up."""
        cdef uint64_t gap = slot - self.slots, index = gap
        self.count -= 1
        while True:
            index = (index + 1) & self.mask
            slot = self.slots + index
            if slot.lane is NULL:
                break
            # How far it is from the place where who looks for it begins.
            if (index - slot.hash) & self.mask >= (index - gap) & self.mask:
                self.slots[gap], gap = slot[0], index
        self.slots[gap].lane = NULL
        return 0
