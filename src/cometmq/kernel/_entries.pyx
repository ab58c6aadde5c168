# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `sends.show_entries`, `reference.choose_entries` and `gather`: queue entries, and what they name."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cometmq.kernel._bytes cimport get_u32, get_u64, put_bytes, put_u32, put_u64
from cometmq.kernel._layouts cimport (
    BLANK_SIZE,
    GAP_CODE,
    QUEUE_ENTRY_PHYSICAL_OFFSET_AT,
    QUEUE_ENTRY_SIZE,
    QUEUE_ENTRY_SIZE_AT,
    QUEUE_ENTRY_TAGS_CODE_AT,
)
from cometmq.kernel._queue_ends cimport QueueEnd
from cometmq.kernel._text cimport holds

cdef enum:
    RECORD_FIELDS = 17  # of codec.record.Record


def show_entries(list arrivals, dict dirty, Py_ssize_t tail_size_max, list full, dict watched):
    """See `cometmq.kernel.sends.show_entries`."""
    cdef tuple arrival
    cdef QueueEnd queue
    cdef bytearray tail
    cdef Py_ssize_t size
    cdef uint8_t *at
    for arrival in arrivals:
        queue = <QueueEnd?>arrival[0]
        tail = queue.tail
        size = PyByteArray_GET_SIZE(tail)
        if size == 0:
            dirty[queue] = None
        PyByteArray_Resize(tail, size + QUEUE_ENTRY_SIZE)
        at = <uint8_t *>PyByteArray_AS_STRING(tail) + size
        put_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT, <uint64_t><int64_t>arrival[2])
        put_u32(at + QUEUE_ENTRY_SIZE_AT, <uint32_t><int32_t>arrival[3])
        put_u64(at + QUEUE_ENTRY_TAGS_CODE_AT, <uint64_t><int64_t>arrival[4])
        queue.max_offset = <int64_t>arrival[1] + 1
        if size + QUEUE_ENTRY_SIZE >= tail_size_max:
            full.append(queue)
        if queue.watched:
            watched.setdefault(queue, []).append(arrival[4])


def show_records(
    records not None, Py_ssize_t index, tuple unusual not None, queues_of, type queue_type not None,
    tag_hash, dict dirty, Py_ssize_t tail_size_max, list full, dict watched,
):
    """See `cometmq.kernel.records.show_records`."""
    cdef list all = list(records)
    cdef int64_t kinds = unusual[0]
    cdef bytes part = <bytes?>unusual[1], block
    cdef const uint8_t *properties
    cdef object other_topic = unusual[2], topic = None, found, code
    cdef dict queues = None
    cdef Py_ssize_t size, count = len(all)
    cdef tuple record
    cdef QueueEnd queue
    cdef bytearray tail
    cdef uint8_t *at
    while index < count:
        found = all[index]
        if not isinstance(found, tuple) or len(found) < RECORD_FIELDS:
            raise TypeError("a record that is no tuple of 17")
        record = <tuple>found
        if record[15] is not topic:
            topic = record[15]
            queues = None if topic == other_topic else queues_of(topic)
        if queues is None:
            break
        found, block = queues.get(record[3]), <bytes?>record[16]
        if type(found) is not queue_type:
            break
        queue = <QueueEnd?>found
        if queue.max_offset != record[5] or <int64_t>record[7] & kinds:
            break
        properties, size = <const uint8_t *>PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block)
        if holds(properties, size, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part)):
            break
        code = tag_hash(block) if holds(properties, size, b"TAGS", 4) else 0
        tail = queue.tail
        size = PyByteArray_GET_SIZE(tail)
        if size == 0:
            dirty[queue] = None
        PyByteArray_Resize(tail, size + QUEUE_ENTRY_SIZE)
        at = <uint8_t *>PyByteArray_AS_STRING(tail) + size
        put_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT, <uint64_t><int64_t>record[6])
        put_u32(at + QUEUE_ENTRY_SIZE_AT, <uint32_t><int32_t>record[0])
        put_u64(at + QUEUE_ENTRY_TAGS_CODE_AT, <uint64_t><int64_t>code)
        queue.next_offset = queue.max_offset = record[5] + 1
        if size + QUEUE_ENTRY_SIZE >= tail_size_max:
            full.append(queue)
        if queue.watched:
            watched.setdefault(queue, []).append(code)
        index += 1
    return index


def choose_entries(
    const uint8_t[::1] entries, Py_ssize_t count_max, int64_t size_max, int64_t log_start, match,
):
    """See `cometmq.kernel.reference.choose_entries`."""
    cdef list runs = []
    cdef int64_t start = -1, end = -1, total = 0, physical_offset, tags_code
    cdef Py_ssize_t count = 0, looked = 0, position = 0
    cdef int32_t size
    cdef bint removed = False
    cdef const uint8_t *at
    if entries.shape[0] % QUEUE_ENTRY_SIZE:
        raise ValueError("entries that are not whole")
    while position < entries.shape[0]:
        at = &entries[position]
        position += QUEUE_ENTRY_SIZE
        size = <int32_t>get_u32(at + QUEUE_ENTRY_SIZE_AT)
        if size <= 0 or (count and (count >= count_max or total + size > size_max)):
            break
        physical_offset = <int64_t>get_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT)
        tags_code = <int64_t>get_u64(at + QUEUE_ENTRY_TAGS_CODE_AT)
        looked += 1
        if physical_offset < log_start or size == BLANK_SIZE or tags_code == GAP_CODE:
            removed = True
            continue
        if match is not None and not match(tags_code):
            continue
        if physical_offset != end:
            if end >= 0:
                runs.append((start, end))
            start = physical_offset
        end = physical_offset + size
        count += 1
        total += size
    if end >= 0:
        runs.append((start, end))
    return runs, count, total, looked, bool(removed)


def gather(const uint8_t[::1] view, int64_t base, list runs):
    """See `cometmq.kernel.reference.gather`."""
    cdef int64_t start, end, total = 0, limit = base + view.shape[0]
    cdef tuple run
    cdef bytes room
    cdef uint8_t *at
    for run in runs:
        start, end = run[0], run[1]
        if base <= start <= end <= limit:
            total += end - start
    room = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(room)
    for run in runs:
        start, end = run[0], run[1]
        if base <= start < end <= limit:
            at = put_bytes(at, &view[start - base], end - start)
    return room
