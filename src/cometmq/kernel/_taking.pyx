# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""`declines.take_sends`, compiled: from the bytes of a connection to columns, without an object of each send.

A frame that is in any way unusual ends it, and the Python side looks at that one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from cometmq.kernel._blocks cimport Span, Wait, equals, look_at, number_of
from cometmq.kernel._bytes cimport get_u32, put_bytes
from cometmq.kernel._columns cimport EXTRA, SLOT_DIGITS, TIMING, Row, SendBatch
from cometmq.kernel._lane_table cimport (
    HALF_LEVEL, LEVEL_SHIFT, TIMED_LEVEL, LaneTable, lane_hash, slot_of, topic_hash,
)
from cometmq.kernel._layouts cimport (
    BATCH_HEAD_BODY_SIZE_AT,
    BATCH_HEAD_FLAG_AT,
    BATCH_HEAD_ITEM_SIZE_AT,
    BATCH_HEAD_SIZE,
    PROPERTIES_SIZE_MAX,
    SHORT_SIZE,
    TOPIC_BLOCK_V1_MAX,
)
from cometmq.kernel._send_headers cimport LETTERS, SEND_BATCH, Header, read_header
from cometmq.kernel._signatures cimport KnownSigner
from cometmq.kernel._text cimport digit_count, hash_on, is_ascii, put_decimal
from cometmq.kernel._whole_frames cimport Frame, get_frame
from cometmq.kernel.reference import java_hash_many as _hash_any

cdef extern from *:
    void __builtin_prefetch(const void *at) nogil

cdef extern from "Python.h":
    PyObject *borrowed_item "PyTuple_GET_ITEM"(PyObject *whole, Py_ssize_t index)

cdef const char *ID = b"__transactionId__\1"
cdef const char *SLOT = b"TIMER_OUT_MS\1"

cdef enum:
    ID_SIZE = 18
    SLOT_SIZE = 13
    QUEUE = 0  # Of a lane; then the topic that clients name, and what it adds to properties.
    ASKED_BLOCK = 4
    RESPONSE_BIT = 1
    ONEWAY_BIT = 2
    CACHE_LINE = 64
    LANES_AHEAD = 32  # The lanes of so many requests are found together.


# A request whose lane is not found yet.
cdef struct Search:
    Py_ssize_t row  # Its first.
    Py_ssize_t text_size  # Of the batch, before it.
    Py_ssize_t position  # Of its frame.
    Span topic  # In the bytes that came.
    uint64_t hash  # Of its lane.
    PyObject *lane
    bint is_timed
    int64_t time_ms  # Of a timed message: when it is to be delivered,
    bint is_delay  # counted from now or since 1970.


# The lanes of some requests that follow each other are found together, so that the processor fetches them side by side:
# of very many none is in a cache, and one after the other they were a seventh of the time of a message.
cdef struct Searches:
    int ahead  # For so many it waits; more each time, since one that has no lane wastes what was read behind it.
    int ahead_max
    int count
    Search some[LANES_AHEAD]
    Span topic  # Of the latest, and its hash.
    uint64_t topic_hash


cdef bint _search(Searches *searches, LaneTable table, Span *topic, Span *queue_id) except -1:
    """Note which lane the next request needs; False where there is no such queue."""
    cdef Search *search = &searches.some[searches.count]
    cdef Span *before = &searches.topic
    cdef int64_t number = 0
    if topic.at is NULL or not number_of(queue_id, 31, &number):
        return False
    if before.at is NULL or not equals(topic, <const char *>before.at, before.size):
        searches.topic_hash = topic_hash(topic.at, topic.size)
    searches.topic = search.topic = topic[0]
    search.hash = lane_hash(searches.topic_hash, number)
    __builtin_prefetch(&table.slots[search.hash & table.mask])
    return True


cdef inline bint _is_to(PyObject *lane, Span *topic) noexcept:
    """Whether a lane is of a topic that clients name."""
    cdef PyObject *block = borrowed_item(lane, ASKED_BLOCK)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(<bytes>block)
    cdef Py_ssize_t start = 1 if size <= TOPIC_BLOCK_V1_MAX else 2
    return equals(topic, PyBytes_AS_STRING(<bytes>block) + start, size - start)


cdef inline bint _has_room(SendBatch batch, Search *search) noexcept:
    """Return whether the properties of a send fit into a record together with those that its lane adds."""
    cdef Py_ssize_t extra_size = PyBytes_GET_SIZE(<bytes>borrowed_item(search.lane, EXTRA))
    return not extra_size or (
        batch.rows[search.row].block_size + extra_size + PyBytes_GET_SIZE(batch.suffix)
        <= PROPERTIES_SIZE_MAX
    )


cdef bint _note_slot(SendBatch batch, Search *search) except -1:
    """Write the slot of a timed message into the room that `_leave_room_for_slot` left; False if the slow path decides about it."""
    cdef Row *row = batch.rows + search.row
    cdef tuple timing = <tuple>(<tuple>search.lane)[TIMING]
    cdef int64_t slot_ms = timing[0](search.time_ms, search.is_delay)
    if slot_ms < 0 or digit_count(slot_ms) != SLOT_DIGITS:
        return False
    put_decimal(batch.text + row.block_at + row.block_size - 1 - SLOT_DIGITS, slot_ms)
    return True


cdef bint _find_lanes(SendBatch batch, Searches *searches, LaneTable table, Py_ssize_t *position) except -1:
    """Give requests their lanes; from the first on that has none all are let go, and is False."""
    cdef int index, count = searches.count
    cdef Search *some = searches.some
    cdef PyObject *queue
    for index in range(count):
        some[index].lane = slot_of(table, some[index].hash).lane
        __builtin_prefetch(some[index].lane)
        __builtin_prefetch(<char *>some[index].lane + CACHE_LINE)
    for index in range(count):
        if some[index].lane is NULL:
            break
        queue = borrowed_item(some[index].lane, QUEUE)
        __builtin_prefetch(queue)
        __builtin_prefetch(<char *>queue + CACHE_LINE)
        __builtin_prefetch(borrowed_item(some[index].lane, ASKED_BLOCK))
    for index in range(count):
        if (
            some[index].lane is NULL
            or not _is_to(some[index].lane, &some[index].topic)
            or not _has_room(batch, &some[index])
            or some[index].is_timed and not _note_slot(batch, &some[index])
        ):
            position[0] = some[index].position
            _let_go(batch, searches, index)
            return False
        batch.give_lane(
            some[index].row,
            some[index + 1].row if index + 1 < count else batch.count,
            <tuple>some[index].lane,
        )
    searches.count, searches.ahead = 0, min(2 * searches.ahead, searches.ahead_max)
    return True


cdef int _let_go(SendBatch batch, Searches *searches, int first) noexcept:
    """Let the rows go of those requests from a first on that have no lane yet."""
    cdef Py_ssize_t index
    if first < searches.count:
        for index in range(searches.some[first].row, batch.count):
            batch.request_count -= batch.rows[index].messages > 0
        batch.count = searches.some[first].row
        batch.text_size = searches.some[first].text_size
    searches.count = 0
    return 0


cdef bint _is_text(const uint8_t *at, Py_ssize_t size) except -1:
    if not is_ascii(at, size):
        try:
            PyUnicode_DecodeUTF8(<const char *>at, size, NULL)
        except UnicodeDecodeError:
            return False
    return True


cdef int _note_tag(Row *row, Span *tag) except -1:
    """Note the hash of a tag."""
    row.tags_code = 0
    if tag.at is not NULL:
        if is_ascii(tag.at, tag.size):
            row.tags_code = <int32_t>hash_on(0, tag.at, tag.size)
        else:
            row.tags_code = _hash_any(
                [PyBytes_FromStringAndSize(<const char *>tag.at, tag.size)]
            )[0]
    return 0


cdef inline bint _waits(Wait *wait) noexcept nogil:
    return wait.is_half or wait.delay.at is not NULL or wait.time.at is not NULL


cdef inline void _note_key(SendBatch batch, Row *row, Span *key, Span *words) noexcept:
    """Note where the keys of a message lie in the batch's text; those of before stay where there are none."""
    if key.at is not NULL:
        row.key_at, row.key_size = key.at - batch.text, key.size
    if words.at is not NULL:
        row.words_at, row.words_size = words.at - batch.text, words.size


cdef Py_ssize_t _shared_size(Header *header) except -2:
    """Write the properties of a send into the room for them; gives how many bytes, -1 where they are no text."""
    cdef Span *text = &header.fields[c"i" - c"a"]
    if text.at is NULL:
        return 0
    if text.at != header.room:
        memcpy(header.room, text.at, text.size)
    if not header.is_ascii and not _is_text(header.room, text.size):
        return -1
    return text.size


cdef inline bint _note_wait(Search *search, Wait *wait) noexcept:
    """Add the level of a message that waits to the hash of its lane; return False for a level or time in another form than the broker's."""
    cdef int64_t level = HALF_LEVEL if wait.is_half else 0
    if wait.delay.at is not NULL and (not number_of(&wait.delay, 10, &level) or level <= 0):
        return False
    if wait.time.at is not NULL:
        if not number_of(&wait.time, 50, &search.time_ms):
            return False
        search.time_ms *= wait.unit_ms
        search.is_timed, search.is_delay, level = True, wait.is_delay, TIMED_LEVEL
    search.hash += lane_hash(0, level << LEVEL_SHIFT)
    return True


cdef int _name_transaction(SendBatch batch, Row *row) except -1:
    """Add the property __transactionId__ to a half message: its unique key."""
    cdef uint8_t *at = batch.room_for(row.block_size + ID_SIZE + row.key_size + 1) + row.block_size
    at = put_bytes(at, ID, ID_SIZE)
    at = put_bytes(at, batch.text + row.key_at, row.key_size)
    at[0] = 2
    row.block_size += ID_SIZE + row.key_size + 1
    return 0


cdef int _leave_room_for_slot(SendBatch batch, Row *row) except -1:
    """Add the property TIMER_OUT_MS to a timed message; its value is known once the lane is found."""
    cdef uint8_t *at = batch.room_for(row.block_size + SLOT_SIZE + SLOT_DIGITS + 1) + row.block_size
    at = put_bytes(at, SLOT, SLOT_SIZE)
    at[SLOT_DIGITS] = 2
    row.block_size += SLOT_SIZE + SLOT_DIGITS + 1
    return 0


cdef bint _add_one(SendBatch batch, Header *header, Row *row, Span *body, Search *search) except -1:
    """Make a row of a send that is one message; False where there may be anything special about it."""
    cdef Span key, tag, words
    cdef Wait wait
    cdef Py_ssize_t size = _shared_size(header)
    if size <= 0 or size + PyBytes_GET_SIZE(batch.suffix) > PROPERTIES_SIZE_MAX:
        return False
    if not look_at(header.room, size, &key, &tag, &words, &wait) or key.at is NULL:
        return False
    if header.fixed.is_half and not wait.is_half:
        return False
    if not _note_wait(search, &wait):
        return False
    _note_tag(row, &tag)
    row.block_at, row.block_size = batch.text_size, size
    _note_key(batch, row, &key, &words)
    if wait.is_half:
        _name_transaction(batch, row)
    elif wait.time.at is not NULL:
        _leave_room_for_slot(batch, row)
    row.body, row.body_size = body.at, body.size
    return True


# A message of a batch, where it lies in the body (docs/format/batch.md).
cdef struct Item:
    Span body
    Span own  # Its properties.
    int32_t flag
    const uint8_t *end


cdef bint _get_item(const uint8_t *at, const uint8_t *end, Item *item) noexcept nogil:
    """Find the parts of a message of a batch; False where its sizes do not add up."""
    cdef int64_t item_size, body_size
    if end - at < BATCH_HEAD_SIZE:
        return False
    item_size = <int32_t>get_u32(at + BATCH_HEAD_ITEM_SIZE_AT)
    body_size = <int32_t>get_u32(at + BATCH_HEAD_BODY_SIZE_AT)
    item.flag = <int32_t>get_u32(at + BATCH_HEAD_FLAG_AT)
    item.body.at, item.body.size = at + BATCH_HEAD_SIZE, body_size
    if body_size < 0 or end - item.body.at < body_size + SHORT_SIZE:
        return False
    item.own.at = item.body.at + body_size
    item.own.size = item.own.at[0] << 8 | item.own.at[1]
    item.own.at += SHORT_SIZE
    if end - item.own.at < item.own.size:
        return False
    item.end = item.own.at + item.own.size
    return item.end - at == item_size


cdef int64_t _measure(Span *body, int64_t count_max, int64_t *size) noexcept nogil:
    """Count the messages of a batch and the bytes of their own properties; 0 where a size does not add up."""
    cdef const uint8_t *at = body.at
    cdef const uint8_t *end = body.at + body.size
    cdef Item item
    cdef int64_t count = 0
    size[0] = 0
    while at < end:
        if count == count_max or not _get_item(at, end, &item):
            return 0
        size[0] += item.own.size + 1
        count += 1
        at = item.end
    return count


cdef bint _add_item(
    SendBatch batch, Row *row, Item *item, Py_ssize_t shared_at, Py_ssize_t shared_size, Span *of_all
) except -1:
    """Make a row of a message of a batch; what that says of all stands behind its own properties."""
    cdef uint8_t *room = batch.text + row.block_at
    cdef uint8_t *end = room + item.own.size
    cdef Span key, tag, words
    cdef Wait wait
    memcpy(room, item.own.at, item.own.size)
    if item.own.size and end[-1] != 2:
        end[0] = 2
        end += 1
    if not _is_text(room, end - room):
        return False
    if not look_at(room, end - room, &key, &tag, &words, &wait) or _waits(&wait):
        return False
    _note_tag(row, &tag)
    row.key_at = row.key_size = row.words_at = row.words_size = 0
    _note_key(batch, row, &key, &words)
    memcpy(end, batch.text + shared_at, shared_size)
    key, words = of_all[0], of_all[1]
    if key.at is not NULL:  # It is that of each message, for it stands behind its own.
        key.at = end + (key.at - batch.text - shared_at)
    if words.at is not NULL:
        words.at = end + (words.at - batch.text - shared_at)
    _note_key(batch, row, &key, &words)
    row.block_size = end + shared_size - room
    row.body, row.body_size, row.flag = item.body.at, item.body.size, item.flag
    return row.block_size + PyBytes_GET_SIZE(batch.suffix) <= PROPERTIES_SIZE_MAX


cdef bint _add_batch(
    SendBatch batch, Header *header, Row *like, Span *body, int64_t count_max
) except -1:
    """Add the messages of a batch as rows; False where there is anything special about one."""
    cdef Py_ssize_t shared_at = batch.text_size, shared_size = _shared_size(header)
    cdef int64_t own_size = 0, index, count = _measure(body, count_max, &own_size)
    cdef const uint8_t *at = body.at
    cdef Span of_all[2]  # Its unique key, and its keys.
    cdef Span tag
    cdef Wait wait
    cdef Row *rows
    cdef Item item
    if count == 0 or shared_size < 0:
        return False
    # Its own text stays in front of theirs.
    batch.room_for(shared_size + own_size + count * shared_size)
    if not look_at(batch.text + shared_at, shared_size, &of_all[0], &tag, &of_all[1], &wait):
        return False
    if tag.at is not NULL or _waits(&wait):
        return False
    rows = batch.new_rows(count)
    like.block_at = shared_at + shared_size
    like.is_unnamed = of_all[0].at is NULL
    for index in range(count):
        rows[index] = like[0]
        _get_item(at, body.at + body.size, &item)
        if not _add_item(batch, &rows[index], &item, shared_at, shared_size, of_all):
            return False
        rows[index].messages = 0 if index else count
        like.block_at += rows[index].block_size
        at = item.end
    batch.text_size += shared_size
    for index in range(count):
        batch.keep_row()
    return True


cdef bint _add(
    SendBatch batch, Header *header, Span *body, Searches *searches, LaneTable straight,
    Py_ssize_t body_size_max, int64_t batch_count_max,
) except -1:
    """Add a send as a row for each of its messages; False where there is anything special about it."""
    cdef Row *row
    cdef Row like
    cdef Span *fields = header.fields
    if not header.fixed.is_plain or header.flag & RESPONSE_BIT or not 0 < body.size <= body_size_max:
        return False
    if not _search(searches, straight, &fields[c"b" - c"a"], &fields[c"e" - c"a"]):
        return False
    row = batch.new_rows(1)
    # What the rest may leave as it is; a memset of a whole row takes longer than to read the header.
    row.key_at = row.key_size = row.words_at = row.words_size = 0
    row.queue_offset = row.physical_offset = row.size = 0
    row.is_unnamed = False
    if not number_of(&fields[c"g" - c"a"], 62, &row.born_ms):
        return False
    row.flag, row.tried = header.fixed.flag, header.fixed.tried
    row.opaque, row.is_oneway = <int32_t>header.opaque, header.flag & ONEWAY_BIT
    row.host, row.messages = len(batch.hosts), 1
    if header.code == SEND_BATCH:
        like = row[0]
        return _add_batch(batch, header, &like, body, batch_count_max)
    if not _add_one(batch, header, row, body, &searches.some[searches.count]):
        return False
    batch.keep_row()
    return True


cdef inline bint _add_searched(
    SendBatch batch, Header *header, Span *body, Searches *searches, LaneTable straight,
    Py_ssize_t position, Py_ssize_t body_size_max, int64_t batch_count_max,
) except -1:
    """Add a send, whose lane is found later; False where there is anything special about it."""
    cdef Search *search = &searches.some[searches.count]
    search.row, search.text_size, search.position = batch.count, batch.text_size, position
    search.is_timed = False
    if not _add(batch, header, body, searches, straight, body_size_max, batch_count_max):
        return False
    searches.count += 1
    return True


def take_sends(
    SendBatch batch not None, bytes data not None, Py_ssize_t position, Py_ssize_t count_max,
    bytes host not None, LaneTable straight not None, tuple limits not None, KnownSigner signer=None,
):
    """See `cometmq.kernel.declines.take_sends`."""
    return take(batch, data, position, count_max, host, straight, limits, signer)


cdef Py_ssize_t take(
    SendBatch batch, bytes data, Py_ssize_t position, Py_ssize_t count_max,
    bytes host, LaneTable straight, tuple limits, KnownSigner signer,
) except -1:
    """The same for compiled code."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), before = batch.request_count
    cdef Frame frame
    cdef Header header
    cdef Span fields[LETTERS]
    cdef Searches searches
    cdef Py_ssize_t body_size_max, frame_size_max, header_size_max, batch_count_max
    body_size_max, frame_size_max, header_size_max, batch_count_max = limits
    # Whom a signer asks about must be the first: nothing is read ahead of him.
    searches.count, searches.ahead, searches.ahead_max = 0, 1, LANES_AHEAD if signer is None else 1
    searches.topic.at = NULL
    if signer is not None:
        signer.begin()
    try:
        while batch.request_count - before < count_max:
            if not get_frame(start + position, size - position, frame_size_max, header_size_max, &frame):
                break
            header.room = batch.room_for(frame.header_size + 8)
            if not read_header(frame.kind, frame.header, frame.body.at, &header, fields):
                break
            if signer is not None and not signer.passes(&header, &frame.body):
                break
            if not _add_searched(
                batch, &header, &frame.body, &searches, straight, position, body_size_max, batch_count_max
            ):
                break
            position += frame.size
            if searches.count == searches.ahead and not _find_lanes(batch, &searches, straight, &position):
                break
        _find_lanes(batch, &searches, straight, &position)
    finally:
        _let_go(batch, &searches, 0)  # Where something was raised there may be some.
        if batch.request_count > before:
            batch.hosts.append(host)
            batch.buffers.append(data)
    return position
