# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `columns.take_sends`: from the bytes of a connection to columns, without an object of each send.

A frame that is in any way unusual ends it, and the Python side looks at that one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from cometmq.kernel._bytes cimport get_u32
from cometmq.kernel._blocks cimport Span, look_at
from cometmq.kernel._columns cimport Row, SendBatch
from cometmq.kernel._layouts cimport (
    FRAME_HEAD_HEADER_AT,
    FRAME_HEAD_LENGTH_AT,
    FRAME_HEAD_SIZE,
    HEADER_SIZE_MAX,
    PROPERTIES_SIZE_MAX,
    SHORT_SIZE,
)
from cometmq.kernel._text cimport get_decimal, hash_on, hex_digit, is_ascii, short_escape
from cometmq.kernel.columns import LANGUAGES
from cometmq.kernel.reference import java_hash_many as _hash_any

cdef enum:
    SEND_V2 = 310
    RESPONSE_BIT = 1
    ONEWAY_BIT = 2
    JSON_KIND = 0
    BINARY_KIND = 1
    # A binary header up to its fields: code 2, language 1, version 2, opaque 4, flag 4, and the sizes of the
    # remark, of which there is none, and of the fields (docs/format/remoting.md).
    OPAQUE_AT = 5
    FLAG_AT = 9
    REMARK_SIZE_AT = 13
    FIELDS_SIZE_AT = 17
    FIELDS_AT = 21
    LETTERS = 26
    LETTER_SIZE = 4  # As the name of a field, with its quotes and the colon.
    NUMBERS = 256

# Bytes, eight of each.
cdef uint64_t ONES = 0x0101010101010101
cdef uint64_t BLANKS = 0x2020202020202020
cdef uint64_t QUOTES = 0x2222222222222222
cdef uint64_t BACKSLASHES = 0x5C5C5C5C5C5C5C5C
cdef uint64_t HIGHEST_BITS = 0x8080808080808080

# What is found of a header's keys.
cdef enum:
    HAS_CODE = 1
    HAS_FIELDS = 2
    HAS_FLAG = 4
    HAS_LANGUAGE = 8
    HAS_OPAQUE = 16
    HAS_VERSION = 32
    HAS_KIND = 64

cdef tuple _numbers = tuple([str(number) for number in range(NUMBERS)])


cdef struct Header:
    int64_t flag
    int64_t opaque
    # By their letters; and where properties are written without the escapes of JSON.
    Span *fields
    uint8_t *room


cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end


cdef inline bint _take(Cursor *cursor, uint8_t expected) noexcept nogil:
    if cursor.at < cursor.end and cursor.at[0] == expected:
        cursor.at += 1
        return True
    return False


cdef inline const uint8_t *_plain_end(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Where characters end that JSON writes as they are: at a quote, a backslash, one that may not be, or no ASCII.

    Eight at a time: less the character that is looked for, or less the first that may be, only such a byte has its
    highest bit; a byte behind one may have it, too, so the eight are looked at one by one then.
    """
    cdef uint64_t word
    while end - at >= 8:
        memcpy(&word, at, 8)
        if (
            (word ^ QUOTES) - ONES | (word ^ BACKSLASHES) - ONES | word - BLANKS | word
        ) & HIGHEST_BITS:
            break
        at += 8
    while at < end and 0x20 <= at[0] < 0x80 and at[0] != c'"' and at[0] != c"\\":
        at += 1
    return at


cdef inline bint _take_text(Cursor *cursor, Span *text) noexcept nogil:
    """A JSON string of ASCII without escapes; False for any other."""
    cdef const uint8_t *end
    if cursor.at >= cursor.end or cursor.at[0] != c'"':
        return False
    text.at = cursor.at + 1
    end = _plain_end(text.at, cursor.end)
    if end >= cursor.end or end[0] != c'"':
        return False
    text.size = end - text.at
    cursor.at = end + 1
    return True


cdef inline bint _take_name(Cursor *cursor, Span *name) noexcept nogil:
    """Such a string, and the colon behind it."""
    cdef const uint8_t *at = cursor.at
    if cursor.end - at >= LETTER_SIZE and at[0] == c'"' and at[2] == c'"' and at[3] == c":":
        if c"a" <= at[1] <= c"z":  # Mostly.
            name.at, name.size, cursor.at = at + 1, 1, at + LETTER_SIZE
            return True
    return _take_text(cursor, name) and _take(cursor, c":")


cdef inline bint _take_block(Cursor *cursor, Span *text, uint8_t *room) noexcept nogil:
    """A JSON string as the text that it means; False where it has an escape of another kind than clients write."""
    cdef const uint8_t *at = cursor.at + 1
    cdef const uint8_t *end = cursor.end
    cdef const uint8_t *stop
    cdef uint8_t *out = room
    cdef int code
    if cursor.at >= end or cursor.at[0] != c'"':
        return False
    while True:
        stop = _plain_end(at, end)
        memcpy(out, at, stop - at)
        out, at = out + (stop - at), stop
        if at >= end or at[0] < 0x20:
            return False
        if at[0] == c'"':
            break
        if at[0] != c"\\":
            out[0] = at[0]
            at += 1
        elif end - at >= 6 and at[1] == c"u" and at[2] == c"0" and at[3] == c"0":
            code = hex_digit(at[4]) * 16 + hex_digit(at[5])
            if hex_digit(at[4]) < 0 or hex_digit(at[5]) < 0 or code >= 128:
                return False
            out[0] = code
            at += 6
        else:
            code = short_escape(at[1]) if end - at >= 2 else 0
            if not code:
                return False
            out[0] = code
            at += 2
        out += 1
    text.at, text.size, cursor.at = room, out - room, at + 1
    return True


cdef inline bint _take_number(Cursor *cursor, int64_t *value) noexcept nogil:
    cdef const uint8_t *start = cursor.at
    cdef bint is_good = False
    while cursor.at < cursor.end and (c"0" <= cursor.at[0] <= c"9" or cursor.at[0] == c"-"):
        cursor.at += 1
    value[0] = get_decimal(start, cursor.at - start, &is_good)
    return is_good and -0x80000000 <= value[0] <= 0x7FFFFFFF


cdef inline bint _is(Span *text, const char *word, Py_ssize_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, word, size) == 0


cdef inline bint _keep_field(Header *header, Span *name, Span *value) noexcept nogil:
    """Keep a field that has a letter; False where there was one of that letter."""
    cdef Span *field
    if name.size != 1 or not c"a" <= name.at[0] <= c"z":
        return True
    field = &header.fields[name.at[0] - c"a"]
    if field.at is not NULL:
        return False
    field[0] = value[0]
    return True


cdef inline bint _take_fields(Cursor *cursor, Header *header) noexcept nogil:
    """The object of fields; only the properties may have escapes, and characters beyond ASCII."""
    cdef Span name, value
    if not _take(cursor, c"{"):
        return False
    while True:
        if not _take_name(cursor, &name):
            return False
        if _is(&name, b"i", 1):
            if not _take_block(cursor, &value, header.room):
                return False
        elif not _take_text(cursor, &value):
            return False
        if not _keep_field(header, &name, &value):
            return False
        if _take(cursor, c"}"):
            return True
        if not _take(cursor, c","):
            return False


cdef inline bint _is_language(Span *name):
    cdef bytes language
    for language in <tuple>LANGUAGES:
        if _is(name, PyBytes_AS_STRING(language), PyBytes_GET_SIZE(language)):
            return True
    return False


cdef int _read_key(Cursor *cursor, Span *name, Header *header):
    """Read what stands behind a key of a header; gives which key that is, 0 for what is unusual."""
    cdef Span value
    cdef int64_t number = 0
    if _is(name, b"code", 4):
        return HAS_CODE if _take_number(cursor, &number) and number == SEND_V2 else 0
    if _is(name, b"extFields", 9):
        return HAS_FIELDS if _take_fields(cursor, header) else 0
    if _is(name, b"flag", 4):
        return HAS_FLAG if _take_number(cursor, &header.flag) else 0
    if _is(name, b"opaque", 6):
        return HAS_OPAQUE if _take_number(cursor, &header.opaque) else 0
    if _is(name, b"version", 7):
        return HAS_VERSION if _take_number(cursor, &number) else 0
    if not _take_text(cursor, &value):
        return 0
    if _is(name, b"language", 8):
        return HAS_LANGUAGE if _is_language(&value) else 0
    return HAS_KIND if _is(name, b"serializeTypeCurrentRPC", 23) and _is(&value, b"JSON", 4) else 0


cdef bint _read_json(const uint8_t *start, const uint8_t *end, Header *header):
    """The header of a send as official clients write it; False for any other."""
    cdef Cursor cursor
    cdef Span name
    cdef int seen = 0, key
    cursor.at, cursor.end = start, end
    if not _take(&cursor, c"{"):
        return False
    while True:
        if not _take_name(&cursor, &name):
            return False
        key = _read_key(&cursor, &name, header)
        if not key or seen & key:
            return False
        seen |= key
        if _take(&cursor, c"}"):
            return cursor.at == end and seen | HAS_KIND == 2 * HAS_KIND - 1
        if not _take(&cursor, c","):
            return False


cdef bint _read_binary(const uint8_t *start, const uint8_t *end, Header *header) noexcept nogil:
    """The binary header of a send; False for one that is unusual."""
    cdef const uint8_t *at = start + FIELDS_AT
    cdef int64_t size
    cdef Span name, value
    if end - start < FIELDS_AT or (start[0] << 8 | start[1]) != SEND_V2:
        return False
    header.opaque = <int32_t>get_u32(start + OPAQUE_AT)
    header.flag = <int32_t>get_u32(start + FLAG_AT)
    size = <int32_t>get_u32(start + FIELDS_SIZE_AT)
    if get_u32(start + REMARK_SIZE_AT) != 0 or not 0 <= size <= end - at:
        return False
    end = at + size
    while at < end:
        if end - at < 2:
            return False
        name.size, name.at = at[0] << 8 | at[1], at + SHORT_SIZE
        if name.size + 4 > end - name.at:  # One of 32768 and more is negative to others.
            return False
        size, value.at = <int32_t>get_u32(name.at + name.size), name.at + name.size + 4
        if not 0 <= size <= end - value.at or name.size > 0x7FFF:
            return False
        value.size = size
        if not is_ascii(name.at, name.size):
            return False
        if not _is(&name, b"i", 1) and not is_ascii(value.at, value.size):
            return False
        if not _keep_field(header, &name, &value):
            return False
        at = value.at + value.size
    return True


cdef inline bint _number_of(Span *text, int bits, int64_t *value) noexcept nogil:
    cdef bint is_good = False
    if text.at is NULL:
        return False
    value[0] = get_decimal(text.at, text.size, &is_good)
    return is_good and -(<int64_t>1 << bits) <= value[0] < <int64_t>1 << bits


cdef class _Lookup:
    """Finds lanes; that of the topic before is not looked up again."""

    cdef dict straight
    cdef object queues
    cdef Span topic

    cdef object find(self, Span *topic, Span *queue_id):
        """The lane of a queue; None where it has none."""
        cdef PyObject *found
        cdef int64_t number = 0
        cdef object text
        if topic.at is NULL or queue_id.at is NULL:
            return None
        if self.topic.at is NULL or not _is(topic, <const char *>self.topic.at, self.topic.size):
            text = PyUnicode_DecodeASCII(<const char *>topic.at, topic.size, NULL)
            found = PyDict_GetItem(self.straight, text)
            if found is NULL:
                return None
            self.queues, self.topic = <object>found, topic[0]
        if _number_of(queue_id, 31, &number) and 0 <= number < NUMBERS:
            text = _numbers[number]
        else:
            text = PyUnicode_DecodeASCII(<const char *>queue_id.at, queue_id.size, NULL)
        found = PyDict_GetItem(<dict>self.queues, text)
        return <object>found if found is not NULL else None


cdef bint _add_block(SendBatch batch, Header *header, Row *row) except -1:
    """Add the properties of a send to the batch's text; False where they may be special."""
    cdef Span *text = &header.fields[c"i" - c"a"]
    cdef Span key, tag
    cdef uint8_t *room = header.room
    cdef Py_ssize_t size = text.size
    if text.at is NULL or size + PyBytes_GET_SIZE(batch.suffix) > PROPERTIES_SIZE_MAX:
        return False
    if text.at != room:
        memcpy(room, text.at, size)
    if not is_ascii(room, size):
        try:
            PyUnicode_DecodeUTF8(<const char *>room, size, NULL)
        except UnicodeDecodeError:
            return False
    if not look_at(room, size, &key, &tag):
        return False
    row.tags_code = 0
    if tag.at is not NULL:
        if is_ascii(tag.at, tag.size):
            row.tags_code = <int32_t>hash_on(0, tag.at, tag.size)
        else:
            row.tags_code = _hash_any(
                [PyBytes_FromStringAndSize(<const char *>tag.at, tag.size)]
            )[0]
    row.block_at, row.block_size = batch.text_size, size
    row.key_at, row.key_size = batch.text_size + (key.at - room), key.size
    return True


cdef bint _add(
    SendBatch batch, Header *header, Span *body, _Lookup lookup, Py_ssize_t body_size_max
) except -1:
    """Add a send as a row; False where there is anything special about it."""
    cdef Row *row
    cdef Span *fields = header.fields
    cdef Span *some = &fields[c"m" - c"a"]
    cdef object lane
    cdef int64_t number = 0
    if header.flag & RESPONSE_BIT or not 0 < body.size <= body_size_max:
        return False
    if some.at is not NULL and not _is(some, b"false", 5):
        return False  # A batch, however it says so.
    some = &fields[c"f" - c"a"]
    if some.at is NULL or not _is(some, b"0", 1):
        return False
    lane = lookup.find(&fields[c"b" - c"a"], &fields[c"e" - c"a"])
    if lane is None:
        return False
    row = batch.new_row()
    if not _number_of(&fields[c"g" - c"a"], 62, &row.born_ms):
        return False
    if not _number_of(&fields[c"h" - c"a"], 31, &number):
        return False
    row.flag, number, some = <int32_t>number, 0, &fields[c"j" - c"a"]
    if some.at is not NULL and not _number_of(some, 31, &number):
        return False
    row.tried = <int32_t>number
    if not _add_block(batch, header, row):
        return False
    row.body, row.body_size = body.at, body.size
    row.opaque, row.is_oneway = <int32_t>header.opaque, header.flag & ONEWAY_BIT
    row.host = len(batch.hosts)
    batch.lanes.append(lane)
    batch.text_size += row.block_size
    batch.count += 1
    return True


def take_sends(
    SendBatch batch not None, bytes data not None, Py_ssize_t position, Py_ssize_t count_max,
    bytes host not None, dict straight not None, Py_ssize_t body_size_max,
    Py_ssize_t frame_size_max, Py_ssize_t header_size_max,
):
    """See `cometmq.kernel.columns.take_sends`."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), before = batch.count, header_size
    cdef const uint8_t *at
    cdef int64_t length
    cdef uint32_t head
    cdef Header header
    cdef Span fields[LETTERS]
    cdef Span body
    cdef _Lookup lookup = _Lookup.__new__(_Lookup)
    cdef bint is_send
    lookup.straight = straight
    while size - position >= FRAME_HEAD_SIZE and batch.count - before < count_max:
        at = start + position
        length = <int32_t>get_u32(at + FRAME_HEAD_LENGTH_AT)
        head = get_u32(at + FRAME_HEAD_HEADER_AT)
        header_size = head & HEADER_SIZE_MAX
        if not 4 <= length <= frame_size_max - 4:
            break
        if FRAME_HEAD_HEADER_AT + length > size - position:
            break
        if header_size > header_size_max or header_size > length - 4:
            break
        at += FRAME_HEAD_SIZE
        body.at, body.size = at + header_size, length - 4 - header_size
        memset(fields, 0, sizeof(fields))
        header.fields = fields
        header.room = batch.room_for(header_size)
        if head >> 24 == JSON_KIND:
            is_send = _read_json(at, body.at, &header)
        else:
            is_send = head >> 24 == BINARY_KIND and _read_binary(at, body.at, &header)
        if not is_send or not _add(batch, &header, &body, lookup, body_size_max):
            break
        position += FRAME_HEAD_HEADER_AT + length
    if batch.count > before:
        batch.hosts.append(host)
        batch.buffers.append(data)
    return position
