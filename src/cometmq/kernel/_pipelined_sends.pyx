# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True, auto_pickle=False
"""The compiled twin of `pipelined_sends`: frames of plain sends that leave together, and the plain answers to them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from cometmq.kernel._blocks cimport Span
from cometmq.kernel._bytes cimport get_u32, put_bytes, put_u32
from cometmq.kernel._layouts cimport (
    FRAME_HEAD_HEADER_AT,
    FRAME_HEAD_LENGTH_AT,
    FRAME_HEAD_SIZE,
)
from cometmq.kernel._scan cimport Head, is_name, read_head
from cometmq.kernel._slots cimport get_slot, slot_of
from cometmq.kernel._text cimport (
    PyUnicode_AsUTF8AndSize,
    decimal_size,
    get_decimal,
    put_decimal,
)
from cometmq.kernel.heads import HEADER_SIZE_PLAIN as HEADER_MAX
from cometmq.kernel.pipelined_sends import (
    OPAQUE_MAX as LAST_OPAQUE,
    TEXT_SIZE_PLAIN as TEXT_MAX,
)
from cometmq.model.message import Message

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)

cdef const char *HEX_DIGITS = b"0123456789ABCDEF"
cdef int64_t OPAQUE_MAX = LAST_OPAQUE
cdef uint32_t HEADER_SIZE_PLAIN = HEADER_MAX
cdef Py_ssize_t TEXT_SIZE_PLAIN = TEXT_MAX
cdef object TOPIC = slot_of(Message, "topic"), BODY = slot_of(Message, "body")
cdef object TAG = slot_of(Message, "tag"), KEY_WORDS = slot_of(Message, "keys")
cdef object OWN = slot_of(Message, "properties"), FLAG = slot_of(Message, "flag")
cdef object DELAY = slot_of(Message, "delay_level"), DELIVER = slot_of(Message, "deliver")
cdef object WAIT = slot_of(Message, "wait_store_ok")

cdef enum:
    COUNT_SIZE = 4  # Digits of a unique id that count.

# Names of properties and what stands around their values, as JSON writes them.
cdef const char *TAGS = b"TAGS\\u0001"
cdef const char *KEYS = b"KEYS\\u0001"
cdef const char *MARK = b"\\u0002"
cdef const char *WAITS = b"WAIT\\u0001true\\u0002UNIQ_KEY\\u0001"
cdef const char *WAITS_NOT = b"WAIT\\u0001false\\u0002UNIQ_KEY\\u0001"
cdef const char *LAST = b"\\u0002\""
cdef enum:
    NAME_SIZE = 10
    MARK_SIZE = 6
    WAITS_SIZE = 34
    WAITS_NOT_SIZE = 35
    LAST_SIZE = 7

# What the fields of the last answer said of region and traces: those of the next one say the same.
cdef str _region = ""


cdef class PipelinedSends:
    """See `cometmq.kernel.pipelined_sends.PipelinedSends`."""

    cdef public int64_t first
    cdef public tuple targets
    cdef public Py_ssize_t turn
    cdef public list sent
    cdef public int64_t size
    cdef public object status
    cdef public object make

    def __init__(self, first, targets, turn, status, make):
        self.first = first
        self.targets = targets
        self.turn = turn
        self.sent = []
        self.size = 0
        self.status = status
        self.make = make


cdef struct Send:
    # A plain message: its values as they stand in it, no tag or key where it has none.
    Span tag
    Span key
    bint waits
    int64_t queue_id


cdef inline bint _take_text(object text, Span *span, bint has_blanks) except -1:
    """Where a text stands that JSON writes as it is and that is not too long; False for any other."""
    cdef Py_ssize_t i
    cdef uint8_t letter
    if type(text) is not str or not PyUnicode_IS_ASCII(text):
        return False
    span.at = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &span.size)
    if span.size > TEXT_SIZE_PLAIN:
        return False
    for i in range(span.size):
        letter = span.at[i]
        if not 0x20 <= letter < 0x7F or letter == c'"' or letter == c"\\":
            return False
        if letter == 0x20 and not has_blanks:
            return False
    return True


cdef bytes _take_message(object message, str topic, Py_ssize_t size_max, Send *send):
    """The body of a plain message to this topic; None of any other."""
    cdef object of, body, tag, keys
    if type(message) is not Message:
        return None
    of, body = get_slot(TOPIC, message), get_slot(BODY, message)
    if type(body) is not bytes or (of is not topic and of != topic):
        return None
    if (
        PyBytes_GET_SIZE(<bytes>body) > size_max or get_slot(OWN, message) or get_slot(FLAG, message)
        or get_slot(DELAY, message) or get_slot(DELIVER, message) is not None
    ):
        return None
    send.tag.at = send.key.at = NULL
    send.tag.size = send.key.size = 0
    tag, keys = get_slot(TAG, message), get_slot(KEY_WORDS, message)
    if tag and not _take_text(tag, &send.tag, True):
        return None
    if keys:
        if type(keys) is tuple and len(<tuple>keys) == 1:
            keys = (<tuple>keys)[0]
        if not _take_text(keys, &send.key, False) or not send.key.size:
            return None
    send.waits = bool(get_slot(WAIT, message))
    return <bytes>body


cdef inline Py_ssize_t _properties_size(Send *send) noexcept:
    """Bytes of the properties of a plain message, up to its id, with the quote in front."""
    cdef Py_ssize_t size = 1 + (WAITS_SIZE if send.waits else WAITS_NOT_SIZE)
    if send.tag.size:
        size += NAME_SIZE + send.tag.size + MARK_SIZE
    if send.key.size:
        size += NAME_SIZE + send.key.size + MARK_SIZE
    return size


cdef inline uint8_t *_put_properties(uint8_t *at, Send *send) noexcept:
    at[0] = c'"'
    at += 1
    if send.tag.size:
        at = put_bytes(at, TAGS, NAME_SIZE)
        at = put_bytes(at, send.tag.at, send.tag.size)
        at = put_bytes(at, MARK, MARK_SIZE)
    if send.key.size:
        at = put_bytes(at, KEYS, NAME_SIZE)
        at = put_bytes(at, send.key.at, send.key.size)
        at = put_bytes(at, MARK, MARK_SIZE)
    if send.waits:
        return put_bytes(at, WAITS, WAITS_SIZE)
    return put_bytes(at, WAITS_NOT, WAITS_NOT_SIZE)


cdef str _message_id(str front, int64_t number):
    """A unique id: its front, and the count's last 16 bits as four digits."""
    cdef char digits[64]
    cdef Py_ssize_t size
    cdef const char *start = PyUnicode_AsUTF8AndSize(front, &size)
    cdef int shift
    if size > 60:
        raise ValueError("the front of an id is shorter")
    put_bytes(<uint8_t *>digits, start, size)
    for shift in range(12, -4, -4):
        digits[size] = HEX_DIGITS[number >> shift & 15]
        size += 1
    return PyUnicode_DecodeASCII(digits, size, NULL)


cdef bytes _frame(tuple shared, Send *send, str message_id, int64_t opaque, bytes body):
    """The frame of a plain message."""
    cdef bytes front = <bytes>shared[1], born = <bytes>shared[2], back = <bytes>shared[3]
    cdef bytes end = <bytes>shared[4]
    cdef Py_ssize_t id_size
    cdef const char *id_at = PyUnicode_AsUTF8AndSize(message_id, &id_size)
    cdef Py_ssize_t size = (
        PyBytes_GET_SIZE(front) + decimal_size(send.queue_id) + PyBytes_GET_SIZE(born)
        + _properties_size(send) + id_size + LAST_SIZE + PyBytes_GET_SIZE(back)
        + decimal_size(opaque) + PyBytes_GET_SIZE(end)
    )
    cdef Py_ssize_t body_size = PyBytes_GET_SIZE(body)
    cdef bytes frame = PyBytes_FromStringAndSize(NULL, FRAME_HEAD_SIZE + size + body_size)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(frame)
    at = put_u32(at, <uint32_t>(4 + size + body_size))
    at = put_u32(at, <uint32_t>size)
    at = put_bytes(at, PyBytes_AS_STRING(front), PyBytes_GET_SIZE(front))
    at = put_decimal(at, send.queue_id)
    at = put_bytes(at, PyBytes_AS_STRING(born), PyBytes_GET_SIZE(born))
    at = _put_properties(at, send)
    at = put_bytes(at, id_at, id_size)
    at = put_bytes(at, LAST, LAST_SIZE)
    at = put_bytes(at, PyBytes_AS_STRING(back), PyBytes_GET_SIZE(back))
    at = put_decimal(at, opaque)
    at = put_bytes(at, PyBytes_AS_STRING(end), PyBytes_GET_SIZE(end))
    put_bytes(at, PyBytes_AS_STRING(body), body_size)
    return frame


def pack_pipelined_sends(
    PipelinedSends sends not None, list waiting not None, Py_ssize_t start, head not None,
    tuple limits not None, dict awaited not None, deadline,
):
    """See `cometmq.kernel.pipelined_sends.pack_pipelined_sends`."""
    cdef Send send
    cdef tuple shared = <tuple>head
    cdef str topic = <str>shared[0], id_front = <str>shared[5], message_id
    cdef object numbers = shared[6]
    cdef Py_ssize_t count_max = limits[0], size_max = limits[1], turn = sends.turn
    cdef int64_t room = limits[2], opaque = sends.first
    cdef tuple targets = sends.targets, target, one, entry = (deadline, sends)
    cdef object broker = (<tuple>targets[turn % len(targets)])[2], key
    cdef bytes body
    cdef list frames = []
    cdef Py_ssize_t last = min(len(waiting), start + max(count_max, 0))
    while start < last:
        target = <tuple>targets[turn % len(targets)]
        key = opaque
        if room <= 0 or opaque > OPAQUE_MAX or PyDict_GetItem(awaited, key) is not NULL:
            break
        if target[2] is not broker and target[2] != broker:
            break
        one = <tuple>waiting[start]
        body = _take_message(one[0], topic, size_max, &send)
        if body is None:
            break
        send.queue_id = target[1]
        message_id = _message_id(id_front, next(numbers))
        frames.append(_frame(shared, &send, message_id, opaque, body))
        sends.sent.append((one[0], one[1], PyBytes_GET_SIZE(body), message_id))
        awaited[key] = entry
        sends.size += PyBytes_GET_SIZE(body)
        room -= PyBytes_GET_SIZE(body)
        opaque += 1
        turn += 1
        start += 1
    return b"".join(frames)


cdef struct SendAnswer:
    int64_t opaque
    int64_t queue_id
    int64_t queue_offset
    Span stored_id
    Span transaction_id
    Span region
    Span handle
    bint is_traced


cdef bint _take_fields(Head *head, SendAnswer *answer) noexcept:
    """Read the fields of an answer, of which the last of a name counts; False where they are not plain."""
    cdef Span name, value, queue_id, queue_offset
    cdef Py_ssize_t i
    cdef bint is_good = False
    answer.stored_id.at = answer.transaction_id.at = answer.region.at = answer.handle.at = NULL
    queue_id.at = queue_offset.at = NULL
    queue_id.size = queue_offset.size = 0
    answer.is_traced = True
    for i in range(head.count):
        name, value = head.names[i], head.values[i]
        if is_name(name.at, name.size, b"queueId", 7):
            queue_id = value
        elif is_name(name.at, name.size, b"queueOffset", 11):
            queue_offset = value
        elif is_name(name.at, name.size, b"msgId", 5):
            answer.stored_id = value
        elif is_name(name.at, name.size, b"transactionId", 13):
            answer.transaction_id = value
        elif is_name(name.at, name.size, b"MSG_REGION", 10):
            answer.region = value
        elif is_name(name.at, name.size, b"TRACE_ON", 8):
            answer.is_traced = not is_name(value.at, value.size, b"false", 5)
        elif is_name(name.at, name.size, b"recallHandle", 12):
            answer.handle = value
    answer.queue_id = get_decimal(queue_id.at, queue_id.size, &is_good)
    if not is_good:
        return False
    answer.queue_offset = get_decimal(queue_offset.at, queue_offset.size, &is_good)
    return is_good


cdef inline bint _take_answer(const uint8_t *start, const uint8_t *end, SendAnswer *answer) noexcept:
    """Read the header of a plain answer of success; False of any other."""
    cdef Head head
    if not read_head(start, end, &head) or head.code != 0 or head.flag != 1:
        return False
    answer.opaque = head.opaque
    return _take_fields(&head, answer)


cdef inline str _text(Span *span):
    return None if span.at is NULL else PyUnicode_DecodeASCII(<const char *>span.at, span.size, NULL)


cdef inline str _region_text(Span *span):
    """The name of a region; mostly that of the answer before."""
    global _region
    cdef Py_ssize_t size
    cdef const char *known
    if span.at is NULL:
        return None
    known = PyUnicode_AsUTF8AndSize(_region, &size)
    if size != span.size or memcmp(known, span.at, size) != 0:
        _region = _text(span)
    return _region


cdef object _result(PipelinedSends sends, SendAnswer *answer, object queue, str message_id):
    """The result that an answer gives."""
    cdef str stored_id = _text(&answer.stored_id)
    return sends.make((
        sends.status, message_id, "" if stored_id is None else stored_id, queue, answer.queue_offset,
        _text(&answer.transaction_id), _region_text(&answer.region), answer.is_traced,
        _text(&answer.handle),
    ))  # fmt: skip


def plain_answers(bytes data not None, Py_ssize_t position, dict awaited not None, Py_ssize_t count_max):
    """See `cometmq.kernel.pipelined_sends.plain_answers`."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *at
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), index
    cdef int64_t length, total = 0
    cdef uint32_t header_size
    cdef SendAnswer answer
    cdef PyObject *found
    cdef object key, waiter
    cdef PipelinedSends sends = None, own
    cdef tuple sent, target
    cdef list settled = []
    while len(settled) < count_max and position <= size - FRAME_HEAD_SIZE:
        at = start + position
        length = <int32_t>get_u32(at + FRAME_HEAD_LENGTH_AT)
        header_size = get_u32(at + FRAME_HEAD_HEADER_AT)
        if length < 4 or length > size - position - 4 or header_size > HEADER_SIZE_PLAIN:
            break
        at += FRAME_HEAD_SIZE
        if header_size > length - 4 or not _take_answer(at, at + header_size, &answer):
            break
        key = answer.opaque
        found = PyDict_GetItem(awaited, key)
        if found is NULL:
            break
        waiter = (<tuple>found)[1]
        if not isinstance(waiter, PipelinedSends) or (sends is not None and waiter is not sends):
            break
        own = <PipelinedSends>waiter
        index = answer.opaque - own.first
        target = <tuple>own.targets[(own.turn + index) % len(own.targets)]
        if own.sent[index] is None or <int64_t>target[1] != answer.queue_id:
            break
        sent = <tuple>own.sent[index]
        settled.append((sent[1], _result(own, &answer, target[0], <str>sent[3])))
        own.sent[index] = None
        del awaited[key]
        sends, total = own, total + <int64_t>sent[2]
        position += FRAME_HEAD_HEADER_AT + length
    return position, sends, settled, total
