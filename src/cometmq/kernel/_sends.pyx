# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `sends.plain_sends` and `sends.plain_batch`: sends that are in no way unusual.

One that is ends the loop, and the Python side looks at it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from cometmq.kernel._bytes cimport get_u32
from cometmq.kernel._lane_table cimport LaneTable
from cometmq.kernel._layouts cimport (
    BATCH_HEAD_BODY_SIZE_AT,
    BATCH_HEAD_FLAG_AT,
    BATCH_HEAD_ITEM_SIZE_AT,
    BATCH_HEAD_SIZE,
    PROPERTIES_SIZE_MAX,
    SHORT_SIZE,
)
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, get_decimal

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    """
    void *memmem(const void *where, size_t size, const void *what, size_t what_size)
    void __builtin_prefetch(const void *at) nogil

cdef extern from "Python.h":
    PyObject *borrowed_item "PyTuple_GET_ITEM"(PyObject *whole, Py_ssize_t index)

cdef int SEND_V2 = 310
cdef int ONEWAY_BIT = 2
cdef int CACHE_LINE = 64
# As many as are fetched before the first is here; one that is special wastes what was found behind it.
cdef enum:
    LANES_AHEAD = 32
cdef Py_ssize_t KEY_AT = len(b"UNIQ_KEY\1")


cdef object _field(dict fields, name):
    """The value of a field; None where it is missing, and for a name that is no text (a peer may send anything)."""
    cdef PyObject *found
    if type(name) is not str:
        return None
    found = PyDict_GetItem(fields, name)
    return <object>found if found is not NULL else None


cdef bint _int_of(object text, int64_t low, int64_t high, int64_t *value) except -1:
    """The number that a field's text is; False leaves it to the careful way."""
    cdef Py_ssize_t size
    cdef const uint8_t *at
    cdef bint is_good = False
    if type(text) is not str:
        return False
    at = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &size)
    value[0] = get_decimal(at, size, &is_good)
    return is_good and low <= value[0] <= high


cdef object _shape(const char *text, Py_ssize_t key_at, Py_ssize_t key_end, Py_ssize_t size):
    """The parts of a property block around its unique key; `sends.shape_of` does it for a str."""
    cdef str tail = PyUnicode_DecodeUTF8(text + key_end, size - key_end, NULL)
    if key_at == KEY_AT:
        return tail
    return PyUnicode_DecodeUTF8(text, key_at - KEY_AT, NULL) + "\0" + tail


cdef Py_ssize_t _find_lanes(
    list commands, Py_ssize_t first, dict straight, PyObject **lanes
) except -1:
    """Find the lanes of the next sends, up to the first that has none; gives how many have one.

    They are found before anything is done with them, so that the processor fetches them and their queues
    side by side: of very many none is in a cache, and one after the other they cost a tenth of a message.
    The references are borrowed from `straight`, which nobody changes while a read is handled.
    """
    cdef Py_ssize_t index, found = 0
    cdef tuple command
    cdef dict fields
    cdef object topic, queues = None
    cdef str last_topic = None
    cdef PyObject *lane
    cdef object queue_id
    for index in range(first, min(first + LANES_AHEAD, len(commands))):
        command = <tuple>commands[index]
        if <int>command[0] != SEND_V2:
            break
        fields = <dict>command[6]
        topic, queue_id = _field(fields, "b"), _field(fields, "e")
        if type(topic) is not str or type(queue_id) is not str:
            break
        if <str>topic != last_topic:  # Mostly many in a row are of one topic.
            queues, last_topic = _field(straight, topic), <str>topic
        if queues is None:
            break
        lane = PyDict_GetItem(<dict>queues, queue_id)
        if lane is NULL:
            break
        __builtin_prefetch(lane)
        lanes[found] = lane
        found += 1
    for index in range(found):
        __builtin_prefetch(borrowed_item(lanes[index], 0))
        __builtin_prefetch(<char *>borrowed_item(lanes[index], 0) + CACHE_LINE)
    return found


cdef inline const char *_utf8(object text, Py_ssize_t *size) except? NULL:
    """The bytes of a text; NULL where it has none."""
    try:
        return PyUnicode_AsUTF8AndSize(text, size)
    except UnicodeEncodeError:
        return NULL


cdef inline bint _find_key(
    const char *text, Py_ssize_t size, Py_ssize_t *key_at, Py_ssize_t *key_end
) noexcept:
    """Find the begin and the end of the unique key in a property block; False where it has none."""
    cdef const char *found = <const char *>memmem(text, size, b"UNIQ_KEY\1", KEY_AT)
    if found is NULL:
        return False
    key_at[0] = found - text + KEY_AT
    found = <const char *>memchr(text + key_at[0], 2, size - key_at[0])
    if found is NULL:
        return False
    key_end[0] = found - text
    return True


cdef inline bytes _joined(const char *text, Py_ssize_t size, bytes suffix):
    cdef bytes joined = PyBytes_FromStringAndSize(NULL, size + PyBytes_GET_SIZE(suffix))
    memcpy(PyBytes_AS_STRING(joined), text, size)
    memcpy(PyBytes_AS_STRING(joined) + size, PyBytes_AS_STRING(suffix), PyBytes_GET_SIZE(suffix))
    return joined


cdef inline bint _is_one(dict fields, bytes body, Py_ssize_t body_size_max):
    """Whether a send is one message, of a size that may be, without flags."""
    if not 0 < PyBytes_GET_SIZE(body) <= body_size_max or _field(fields, "f") != "0":
        return False
    some = _field(fields, "m")
    return some is None or some == "false"  # A batch, however it says so.


cdef inline object _tags_code_of(dict shapes, object shape, object look):
    """The tags code of a property block by its shape; None where a block of that shape is special."""
    cdef object code = _field(shapes, shape)
    return look(shape) if code is None else code


cdef inline bint _numbers(dict fields, int64_t *user_flag, int64_t *tried) except -1:
    """The flag of the user, and how often the message was given back; False where a field has no value as clients write it."""
    cdef object some = _field(fields, "k")
    cdef int64_t number = 0
    if _field(fields, "a") is None or not (some is None or some == "true" or some == "false"):
        return False
    some = _field(fields, "d")
    if some is not None and not _int_of(some, -0x80000000, 0x7FFFFFFF, &number):
        return False
    some = _field(fields, "l")
    if some is not None and not _int_of(some, -0x80000000, 0x7FFFFFFF, &number):
        return False
    some = _field(fields, "j")
    tried[0] = 0
    if some is not None and not _int_of(some, -0x80000000, 0x7FFFFFFF, tried):
        return False
    return _int_of(_field(fields, "h"), -0x80000000, 0x7FFFFFFF, user_flag)


def plain_sends(
    list commands, Py_ssize_t first, LaneTable straight not None, dict shapes, look, bytes suffix,
    bytes host, Py_ssize_t body_size_max, list puts, list pending,
):
    """See `cometmq.kernel.sends.plain_sends`."""
    cdef Py_ssize_t index, size, key_at, key_end, suffix_size = PyBytes_GET_SIZE(suffix)
    cdef const char *text
    cdef int64_t number = 0, user_flag = 0, tried = 0
    cdef tuple command, lane
    cdef dict fields
    cdef object some, block, tags_code, born_text = None, born_ms = None
    cdef PyObject *lanes[LANES_AHEAD]
    cdef Py_ssize_t start = first, end = first
    for index in range(first, len(commands)):
        if index == end:
            start, end = end, end + _find_lanes(commands, end, straight.of, lanes)
            if index == end:
                return index
        command = <tuple>commands[index]
        fields = <dict>command[6]
        block = _field(fields, "i")
        if type(block) is not str or not _is_one(fields, <bytes>command[7], body_size_max):
            return index
        text = _utf8(block, &size)
        if text is NULL or size + suffix_size > PROPERTIES_SIZE_MAX:
            return index
        if not _find_key(text, size, &key_at, &key_end) or key_at == key_end:
            return index
        tags_code = _tags_code_of(shapes, _shape(text, key_at, key_end, size), look)
        if tags_code is None:
            return index
        some = _field(fields, "g")
        if born_ms is None or some != born_text:  # Mostly one millisecond a read.
            if not _int_of(some, -(1 << 62), 1 << 62, &number):
                return index
            born_text, born_ms = some, number
        if not _numbers(fields, &user_flag, &tried):
            return index
        lane = <tuple>lanes[index - start]
        puts.append((
            lane[0], lane[1], command[7], _joined(text, size, suffix), tags_code,
            user_flag, 0, born_ms, host, tried, 0, 0,
        ))
        pending.append((
            command[2],
            None if command[1] & ONEWAY_BIT else lane[2],
            PyUnicode_DecodeUTF8(text + key_at, key_end - key_at, NULL),
        ))
    return len(commands)


def plain_batch(
    bytes body, bytes shared, queue, bytes topic_block, born_ms, bytes host, times, hash_of,
    list puts,
):
    """See `cometmq.kernel.sends.plain_batch`."""
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(body)
    cdef int64_t position = 0, size = PyBytes_GET_SIZE(body), start, own_at, own_size, item_size
    cdef int64_t body_size, flag, mended
    cdef Py_ssize_t shared_size = PyBytes_GET_SIZE(shared)
    cdef list taken = []
    cdef object code
    cdef bytes block
    cdef char *room
    while position < size:
        if position + BATCH_HEAD_SIZE > size:
            return False
        item_size = <int32_t>get_u32(data + position + BATCH_HEAD_ITEM_SIZE_AT)
        flag = <int32_t>get_u32(data + position + BATCH_HEAD_FLAG_AT)
        body_size = <int32_t>get_u32(data + position + BATCH_HEAD_BODY_SIZE_AT)
        start = position + BATCH_HEAD_SIZE
        own_at = start + body_size
        if body_size < 0 or own_at + SHORT_SIZE > size:
            return False
        own_size = data[own_at] << 8 | data[own_at + 1]
        position += item_size
        if own_at + SHORT_SIZE + own_size != position or position > size:
            return False
        try:
            code = _tags_code(<const char *>data + own_at + SHORT_SIZE, own_size, hash_of)
        except UnicodeDecodeError:
            return False
        mended = own_size > 0 and data[position - 1] != 2
        if code is None or own_size + mended + shared_size > PROPERTIES_SIZE_MAX:
            return False
        block = PyBytes_FromStringAndSize(NULL, own_size + mended + shared_size)
        room = PyBytes_AS_STRING(block)
        memcpy(room, data + own_at + SHORT_SIZE, own_size)
        if mended:
            room[own_size] = 2
        memcpy(room + own_size + mended, PyBytes_AS_STRING(shared), shared_size)
        taken.append((
            queue, topic_block, body[start:own_at], block, code, flag, 0, born_ms, host,
            times, 0, 0,
        ))
    puts += taken
    return bool(taken)


cdef object _tags_code(const char *block, Py_ssize_t size, hash_of):
    """The hash of the tag in a property block; None when the block may be special."""
    cdef const char *at = block
    cdef const char *end = block + size
    cdef const char *name_end
    cdef const char *piece_end
    cdef const char *tag = NULL
    cdef Py_ssize_t name_size, tag_size = 0
    PyUnicode_DecodeUTF8(block, size, NULL)  # Raises where it is no text.
    while at < end:
        piece_end = <const char *>memchr(at, 2, end - at)
        if piece_end is NULL:
            piece_end = end
        if piece_end == at:
            at += 1
            continue
        name_end = <const char *>memchr(at, 1, piece_end - at)
        if name_end is NULL or name_end == at or name_end + 1 == piece_end:
            return None
        if memchr(name_end + 1, 1, piece_end - name_end - 1) is not NULL:
            return None
        name_size = name_end - at
        if name_size == 5 and memcmp(at, b"DELAY", 5) == 0:
            return None
        if name_size >= 7 and memcmp(at, b"TIMER_D", 7) == 0:
            return None
        if name_size == 4 and memcmp(at, b"TAGS", 4) == 0:
            tag, tag_size = name_end + 1, piece_end - name_end - 1
        at = piece_end + 1
    if tag is NULL:
        return 0
    return hash_of(PyUnicode_DecodeUTF8(tag, tag_size, NULL))
