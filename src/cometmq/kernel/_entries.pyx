# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `sends.show_entries`, `wanted.show_records`, `reference.choose_entries` and `gather`: queue entries, and what they name."""

from cpython.bytearray cimport PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cometmq.kernel._bytes cimport get_u32, get_u64, put_bytes
from cometmq.kernel._layouts cimport (
    BLANK_SIZE,
    GAP_CODE,
    QUEUE_ENTRY_PHYSICAL_OFFSET_AT,
    QUEUE_ENTRY_SIZE,
    QUEUE_ENTRY_SIZE_AT,
    QUEUE_ENTRY_TAGS_CODE_AT,
    RECORD_HEAD_QUEUE_ID_AT,
    RECORD_HEAD_QUEUE_OFFSET_AT,
    RECORD_HEAD_SIZE,
    RECORD_HEAD_SYS_FLAG_AT,
)
from cometmq.kernel._plain_records cimport (
    Parts,
    add_entry,
    has_filled,
    has_parts,
    is_plain_topic,
    is_same_topic,
    topic_of,
    usual_code,
)
from cometmq.kernel._queue_ends cimport QueueEnd


def show_entries(list arrivals, dict dirty, Py_ssize_t tail_size_max, list full, dict watched):
    """See `cometmq.kernel.sends.show_entries`."""
    cdef tuple arrival
    cdef QueueEnd queue
    for arrival in arrivals:
        queue = <QueueEnd?>arrival[0]
        queue.max_offset = <int64_t>arrival[1] + 1
        _show(
            queue, <int64_t>arrival[2], <uint32_t><int32_t>arrival[3], <int64_t>arrival[4],
            dirty, tail_size_max, full, watched,
        )


cdef inline int _show(
    QueueEnd queue, int64_t offset, uint32_t size, int64_t code,
    dict dirty, Py_ssize_t tail_size_max, list full, dict watched,
) except -1:
    """Append an entry to a queue's tail."""
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(queue.tail)
    if before == 0:
        dirty[queue] = None
    add_entry(queue.tail, offset, size, code)
    if has_filled(before + QUEUE_ENTRY_SIZE, tail_size_max):
        full.append(queue)
    if queue.watched:
        watched.setdefault(queue, []).append(code)
    return 0


cdef enum:
    QUEUES_KNOWN = 16  # Of a topic; more take a look into its queues each.


cdef struct _Known:
    # Queues of a topic that were found, which its dict holds, by the last bits of their numbers.
    PyObject *queues[QUEUES_KNOWN]
    int32_t numbers[QUEUES_KNOWN]


cdef inline QueueEnd _queue_of(_Known *known, dict queues, int32_t number, type queue_type):
    """A queue of a topic by its number; None where there is none, or one of another type."""
    cdef int place = number & (QUEUES_KNOWN - 1)
    cdef object queue
    if known.queues[place] is NULL or known.numbers[place] != number:
        queue = queues.get(number)
        if type(queue) is not queue_type:
            return None
        known.queues[place], known.numbers[place] = <PyObject *><QueueEnd?>queue, number
    return <QueueEnd>known.queues[place]


def show_records(
    const uint8_t[::1] chunk, Py_ssize_t position, int64_t offset, tuple unusual not None, queues_of,
    type queue_type not None, dict dirty, Py_ssize_t tail_size_max, list full, dict watched,
):
    """See `cometmq.kernel.wanted.show_records`."""
    cdef const uint8_t *start = &chunk[0]
    cdef const uint8_t *at
    cdef const uint8_t *topic = NULL
    cdef Py_ssize_t end = chunk.shape[0], count = 0
    cdef int64_t code = 0
    cdef uint32_t kinds = unusual[0]
    cdef bytes name = <bytes?>unusual[1]
    cdef object found
    cdef int64_t queue_offset
    cdef dict queues = None
    cdef _Known known
    cdef Parts parts
    cdef QueueEnd queue
    if position < 0:
        raise ValueError("a place in the piece")
    while end - position >= RECORD_HEAD_SIZE and has_parts(start, position, end, offset, &parts):
        at = start + position
        if get_u32(at + RECORD_HEAD_SYS_FLAG_AT) & kinds:
            break
        if not is_same_topic(topic, start + parts.body_end):
            topic = start + parts.body_end
            if not is_plain_topic(topic):
                break
            found = topic_of(start, &parts).decode("ascii")
            found = None if found == unusual[2] else queues_of(found)
            if found is None:
                break
            queues = <dict?>found
            memset(&known, 0, sizeof(known))
        queue = _queue_of(&known, queues, <int32_t>get_u32(at + RECORD_HEAD_QUEUE_ID_AT), queue_type)
        queue_offset = <int64_t>get_u64(at + RECORD_HEAD_QUEUE_OFFSET_AT)
        if queue is None or queue.max_offset != queue_offset:
            break
        if not usual_code(
            start + parts.block_start, parts.after - parts.block_start,
            PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), &code,
        ):
            break
        queue.next_offset = queue.max_offset = queue_offset + 1
        _show(
            queue, offset + position, parts.after - position, code,
            dirty, tail_size_max, full, watched,
        )
        position = parts.after
        count += 1
    return position, count


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
