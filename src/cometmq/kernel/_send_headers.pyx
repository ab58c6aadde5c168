# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True
"""The headers of sends, read where they stand: JSON as official clients write it, and the binary form.

A client writes the same header again and again, but for five values: the number of the request, topic, queue, born time,
properties; and the signature, where there is one. So a header that was read is kept as a pattern: what stands between those. Another that
has the same bytes there means the same, because the reader goes from left to right and would do the same with
them; it costs a comparison.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from cometmq.kernel._blocks cimport Span, equals, number_of
from cometmq.kernel._bytes cimport get_u32
from cometmq.kernel._layouts cimport SHORT_SIZE
from cometmq.kernel._text cimport (
    first_byte, get_decimal, hex_digit, is_ascii, json_stops, short_escape, word_at,
)
from cometmq.kernel.heads import LANGUAGES

cdef enum:
    JSON_KIND = 0
    BINARY_KIND = 1
    # A binary header up to its fields: code 2, language 1, version 2, opaque 4, flag 4, and the sizes of the
    # remark, of which there is none, and of the fields (docs/format/remoting.md).
    OPAQUE_AT = 5
    FLAG_AT = 9
    REMARK_SIZE_AT = 13
    FIELDS_SIZE_AT = 17
    FIELDS_AT = 21
    LETTER_SIZE = 4  # As the name of a field, with its quotes and the colon.
    # Patterns are few, for a turn has few kinds of clients; one that is longer than this is not kept.
    PATTERNS = 4
    PATTERN_SIZE_MAX = 1024
    GAPS = 6  # At most.
    OPAQUE = LETTERS  # As a gap, beside fields by their letters.
    SIGNATURE = LETTERS + 1
    WORDS_MAX = 16
    TOPIC = 1  # The letters b, e, g, i.
    QUEUE_ID = 4
    BORN_MS = 6
    PROPERTIES = 8

# What is found of a header's keys.
cdef enum:
    HAS_CODE = 1
    HAS_FIELDS = 2
    HAS_FLAG = 4
    HAS_LANGUAGE = 8
    HAS_OPAQUE = 16
    HAS_VERSION = 32
    HAS_KIND = 64


# The fields of SEND_MESSAGE in the order of their names, and the letters of the same ones in the others
# (SendMessageRequestHeader and SendMessageRequestHeaderV2 of RocketMQ 5.3.3).
cdef tuple _words = (
    (b"batch", b"m"),
    (b"bornTimestamp", b"g"),
    (b"defaultTopic", b"c"),
    (b"defaultTopicQueueNums", b"d"),
    (b"flag", b"h"),
    (b"maxReconsumeTimes", b"l"),
    (b"producerGroup", b"a"),
    (b"properties", b"i"),
    (b"queueId", b"e"),
    (b"reconsumeTimes", b"j"),
    (b"sysFlag", b"f"),
    (b"topic", b"b"),
    (b"unitMode", b"k"),
)
cdef tuple _languages = LANGUAGES
cdef Span[WORDS_MAX] _word_names
cdef int[WORDS_MAX] _word_letters
cdef int _word_count = len(_words)
assert _word_count <= WORDS_MAX
for _index in range(_word_count):
    _word_names[_index].at = <const uint8_t *>PyBytes_AS_STRING(_words[_index][0])
    _word_names[_index].size = len(_words[_index][0])
    _word_letters[_index] = <int>_words[_index][1][0] - c"a"


cdef int letter_at(int64_t code, int index) noexcept nogil:
    if code == SEND:
        return _word_letters[index] if index < _word_count else -1
    return index if index < LETTERS else -1


cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end
    # Of what is being read: where opaque and properties stand, quotes included.
    Span opaque
    Span block


cdef struct Pattern:
    bint is_there
    int count  # Of its gaps.
    # Of each gap its value, in the order in which they stand; and where the bytes in front of it end in `text`.
    int gaps[GAPS]
    Py_ssize_t ends[GAPS]
    Py_ssize_t size
    int64_t code
    int64_t flag
    Span fields[LETTERS]  # In `text`, but for the gaps.
    Span user
    Span signature
    bint is_strange
    Fixed fixed
    uint8_t text[PATTERN_SIZE_MAX]


cdef Pattern _patterns[PATTERNS]
cdef int _latest = 0, _oldest = 0
memset(_patterns, 0, sizeof(_patterns))


cdef inline bint _take(Cursor *cursor, uint8_t expected) noexcept nogil:
    if cursor.at < cursor.end and cursor.at[0] == expected:
        cursor.at += 1
        return True
    return False


cdef inline uint64_t _stops(uint64_t word) noexcept nogil:
    """Mark the bytes of a word that end a plain JSON string: those of `json_stops`, and those that are no ASCII."""
    return json_stops(word) | word & 0x8080808080808080ULL


cdef inline const uint8_t *_plain_end(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Find the end of the characters that JSON writes as they are."""
    cdef uint64_t stops
    while end - at >= 8:
        stops = _stops(word_at(at))
        if stops:
            return at + first_byte(stops)
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
    """Take the name of a field: a JSON string of ASCII without escapes, and the colon behind it; False for any other."""
    cdef const uint8_t *at = cursor.at
    if cursor.end - at >= LETTER_SIZE and at[0] == c'"' and at[2] == c'"' and at[3] == c":":
        if c"a" <= at[1] <= c"z":  # Mostly.
            name.at, name.size, cursor.at = at + 1, 1, at + LETTER_SIZE
            return True
    return _take_text(cursor, name) and _take(cursor, c":")


cdef inline int _take_escape(Cursor *cursor) noexcept nogil:
    """The character that an escape means; -1 for one of another kind than clients write."""
    cdef const uint8_t *at = cursor.at
    cdef Py_ssize_t left = cursor.end - at
    cdef int high, low
    if left >= 8 and word_at(at) & 0xFCFFFFFFFFFFULL == 0x30303030755CULL:
        cursor.at += 6
        return at[5] & 3  # Mostly: what stands between names and values, \u0001 and \u0002.
    if left >= 6 and at[1] == c"u" and at[2] == c"0" and at[3] == c"0":
        high, low = hex_digit(at[4]), hex_digit(at[5])
        if high < 0 or low < 0 or high >= 8:
            return -1
        cursor.at += 6
        return high * 16 + low
    high = short_escape(at[1]) if left >= 2 else 0
    cursor.at += 2
    return high if high else -1


cdef inline bint _take_block(Cursor *cursor, Span *text, Header *header) noexcept nogil:
    """A JSON string as the text that it means; False where it has an escape of another kind than clients write."""
    cdef const uint8_t *end = cursor.end
    cdef uint8_t *out = header.room
    cdef uint64_t stops
    cdef int code
    if cursor.at >= end or cursor.at[0] != c'"':
        return False
    header.is_ascii = True
    cursor.at += 1
    while True:
        if end - cursor.at >= 8:
            memcpy(out, cursor.at, 8)
            stops = _stops(word_at(cursor.at))
            code = first_byte(stops) if stops else 8
            out += code
            cursor.at += code
            if not stops:
                continue
        elif cursor.at >= end:
            return False
        code = cursor.at[0]
        if code == c'"':
            break
        if code < 0x20:
            return False
        if code == c"\\":
            code = _take_escape(cursor)
            if code < 0:
                return False
        else:
            header.is_ascii = header.is_ascii and code < 0x80
            cursor.at += 1
        out[0] = code
        out += 1
    cursor.at += 1
    text.at, text.size = header.room, out - header.room
    return True


cdef inline bint _take_number(Cursor *cursor, int64_t *value) noexcept nogil:
    cdef const uint8_t *start = cursor.at
    cdef bint is_good = False
    while cursor.at < cursor.end and (c"0" <= cursor.at[0] <= c"9" or cursor.at[0] == c"-"):
        cursor.at += 1
    value[0] = get_decimal(start, cursor.at - start, &is_good)
    return is_good and -0x80000000 <= value[0] <= 0x7FFFFFFF


cdef inline int _letter_of(Header *header, Span *name) noexcept nogil:
    """The letter of a field, from 0 on; -1 for any other."""
    cdef int index
    if header.code == SEND:
        for index in range(_word_count):
            if equals(name, <const char *>_word_names[index].at, _word_names[index].size):
                return _word_letters[index]
    elif name.size == 1 and c"a" <= name.at[0] <= c"z":
        return name.at[0] - c"a"
    return -1


cdef inline bint _keep_field(Header *header, int letter, Span *name, Span *value) noexcept nogil:
    """Keep a field that has a letter; False where there was one of that letter."""
    cdef Span *field
    if letter < 0:
        if equals(name, b"AccessKey", 9) and header.user.at is NULL:
            header.user = value[0]
        elif equals(name, b"Signature", 9) and header.signature.at is NULL:
            header.signature = value[0]
        else:
            header.is_strange = True
        return True
    field = &header.fields[letter]
    if field.at is not NULL:
        return False
    field[0] = value[0]
    return True


cdef inline bint _take_fields(Cursor *cursor, Header *header) noexcept nogil:
    """The object of fields; only the properties may have escapes, and characters beyond ASCII."""
    cdef Span name, value
    cdef int letter
    if not _take(cursor, c"{"):
        return False
    while True:
        if not _take_name(cursor, &name):
            return False
        letter = _letter_of(header, &name)
        if letter == PROPERTIES:
            cursor.block.at = cursor.at
            if not _take_block(cursor, &value, header):
                return False
            cursor.block.size = cursor.at - cursor.block.at
        elif not _take_text(cursor, &value):
            return False
        if not _keep_field(header, letter, &name, &value):
            return False
        if _take(cursor, c"}"):
            return True
        if not _take(cursor, c","):
            return False


cdef inline bint _is_language(Span *name):
    cdef bytes language
    for language in _languages:
        if equals(name, PyBytes_AS_STRING(language), PyBytes_GET_SIZE(language)):
            return True
    return False


cdef inline bint _is_send(int64_t code) noexcept nogil:
    return code == SEND_V2 or code == SEND_BATCH or code == SEND


cdef int _read_key(Cursor *cursor, Span *name, Header *header):
    """Read what stands behind a key of a header; gives which key that is, 0 for what is unusual."""
    cdef Span value
    cdef int64_t number = 0
    if equals(name, b"code", 4):
        return HAS_CODE if _take_number(cursor, &header.code) and _is_send(header.code) else 0
    if equals(name, b"extFields", 9):
        return HAS_FIELDS if _take_fields(cursor, header) else 0
    if equals(name, b"flag", 4):
        return HAS_FLAG if _take_number(cursor, &header.flag) else 0
    if equals(name, b"opaque", 6):
        cursor.opaque.at = cursor.at
        if not _take_number(cursor, &header.opaque):
            return 0
        cursor.opaque.size = cursor.at - cursor.opaque.at
        return HAS_OPAQUE
    if equals(name, b"version", 7):
        return HAS_VERSION if _take_number(cursor, &number) else 0
    if not _take_text(cursor, &value):
        return 0
    if equals(name, b"language", 8):
        return HAS_LANGUAGE if _is_language(&value) else 0
    return HAS_KIND if equals(name, b"serializeTypeCurrentRPC", 23) and equals(&value, b"JSON", 4) else 0


cdef bint _read_json(Cursor *cursor, Header *header):
    """The header of a send as official clients write it; False for any other."""
    cdef Span name
    cdef int seen = 0, key
    if not _take(cursor, c"{"):
        return False
    while True:
        if not _take_name(cursor, &name):
            return False
        key = _read_key(cursor, &name, header)
        if not key or seen & key:
            return False
        if key == HAS_CODE and header.code == SEND and seen & HAS_FIELDS:
            return False  # Which names they have was not known yet.
        seen |= key
        if _take(cursor, c"}"):
            return cursor.at == cursor.end and seen | HAS_KIND == 2 * HAS_KIND - 1
        if not _take(cursor, c","):
            return False


cdef inline bint _is_like(Pattern *pattern, const uint8_t *start, const uint8_t *end, Header *header) noexcept nogil:
    """Whether a JSON header differs from a pattern in its gaps alone; then it is read."""
    cdef Cursor cursor
    cdef Py_ssize_t index, size, done = 0
    cdef int gap
    cursor.at, cursor.end = start, end
    for index in range(pattern.count):
        size = pattern.ends[index] - done
        if end - cursor.at < size or memcmp(cursor.at, pattern.text + done, size) != 0:
            return False
        cursor.at += size
        done += size
        gap = pattern.gaps[index]
        if gap == OPAQUE:
            if not _take_number(&cursor, &header.opaque):
                return False
        elif gap == PROPERTIES:
            if not _take_block(&cursor, &pattern.fields[gap], header):
                return False
        elif gap == SIGNATURE:
            if not _take_text(&cursor, &pattern.signature):
                return False
        elif not _take_text(&cursor, &pattern.fields[gap]):
            return False
    size = pattern.size - done
    if end - cursor.at != size or memcmp(cursor.at, pattern.text + done, size) != 0:
        return False
    header.fields, header.code, header.flag = pattern.fields, pattern.code, pattern.flag
    header.user, header.signature, header.is_strange = pattern.user, pattern.signature, pattern.is_strange
    header.fixed = pattern.fixed
    return True


cdef void _note_fixed(Header *header) noexcept nogil:
    """Note what the fields say that are the same in each send of a client.

    The slow path reads all fields (`SendRequestV2`), and refuses a send of which one is missing or means nothing.
    """
    cdef Span *fields = header.fields
    cdef Span *some = &fields[c"m" - c"a"]
    cdef bint is_batch = header.code == SEND_BATCH
    cdef int64_t flag = 0, tried = 0, number = 0
    cdef bint is_plain = fields[c"a" - c"a"].at is not NULL
    # A batch, however it says so, is one by its code.
    is_plain &= some.at is NULL or equals(some, b"false", 5) or is_batch and equals(some, b"true", 4)
    some = &fields[c"k" - c"a"]
    is_plain &= some.at is NULL or equals(some, b"true", 4) or equals(some, b"false", 5)
    some = &fields[c"d" - c"a"]
    is_plain &= some.at is NULL or number_of(some, 31, &number)
    some = &fields[c"l" - c"a"]
    is_plain &= some.at is NULL or number_of(some, 31, &number)
    some = &fields[c"j" - c"a"]
    is_plain &= some.at is NULL or number_of(some, 31, &tried)
    is_plain &= number_of(&fields[c"h" - c"a"], 31, &flag)
    some = &fields[c"f" - c"a"]
    header.fixed.is_half = some.at is not NULL and not is_batch and equals(some, b"4", 1)
    is_plain &= some.at is not NULL and (header.fixed.is_half or equals(some, b"0", 1))
    header.fixed.is_plain, header.fixed.flag, header.fixed.tried = is_plain, <int32_t>flag, <int32_t>tried


cdef int _find_gaps(Cursor *cursor, Header *header, Span *gaps, int *values) noexcept nogil:
    """Find the values of a header that change from send to send, in order; gives how many, 0 where one of them is missing."""
    cdef Span gap
    cdef Span *field
    cdef int index, before, value, count = GAPS if header.signature.at is not NULL else GAPS - 1
    gaps[0], values[0] = cursor.opaque, OPAQUE
    gaps[1], values[1] = cursor.block, PROPERTIES
    values[2], values[3], values[4], values[5] = TOPIC, QUEUE_ID, BORN_MS, SIGNATURE
    for index in range(1, count):
        value = values[index]
        field = &header.signature if value == SIGNATURE else &header.fields[value]
        if field.at is NULL:
            return 0
        if value != PROPERTIES:
            gaps[index].at = field.at - 1  # The quotes belong to it.
            gaps[index].size = field.size + 2
        gap, before = gaps[index], index
        while before and gaps[before - 1].at > gap.at:
            gaps[before], values[before] = gaps[before - 1], values[before - 1]
            before -= 1
        gaps[before], values[before] = gap, value
    return count


cdef inline void _move(Span *field, const uint8_t *at, Py_ssize_t size, const uint8_t *to) noexcept nogil:
    """Let a field that lies in a piece of a header lie in its copy."""
    if at <= field.at < at + size:
        field.at = to + (field.at - at)


cdef void _remember(const uint8_t *start, Cursor *cursor, Header *header) noexcept nogil:
    """Keep a JSON header as a pattern, in the place of the oldest."""
    global _latest, _oldest
    cdef Span gaps[GAPS]
    cdef Pattern *pattern = &_patterns[_oldest]
    cdef const uint8_t *at = start
    cdef Py_ssize_t size = cursor.end - start
    cdef int index, letter
    pattern.is_there = False
    pattern.count = _find_gaps(cursor, header, gaps, pattern.gaps)
    if not pattern.count:
        return
    for index in range(pattern.count):
        size -= gaps[index].size
    if size > PATTERN_SIZE_MAX:
        return
    memcpy(pattern.fields, header.fields, LETTERS * sizeof(Span))
    pattern.user, pattern.is_strange, pattern.fixed = header.user, header.is_strange, header.fixed
    pattern.signature.at = NULL
    pattern.size, pattern.code, pattern.flag = 0, header.code, header.flag
    for index in range(pattern.count + 1):
        size = (gaps[index].at if index < pattern.count else cursor.end) - at
        for letter in range(LETTERS):
            _move(&pattern.fields[letter], at, size, pattern.text + pattern.size)
        _move(&pattern.user, at, size, pattern.text + pattern.size)
        memcpy(pattern.text + pattern.size, at, size)
        pattern.size += size
        if index < pattern.count:
            pattern.ends[index] = pattern.size
            at = gaps[index].at + gaps[index].size
    pattern.is_there = True
    _latest = _oldest
    _oldest = (_oldest + 1) % PATTERNS


cdef bint _read_binary(const uint8_t *start, const uint8_t *end, Header *header) noexcept nogil:
    """The binary header of a send; False for one that is unusual."""
    cdef const uint8_t *at = start + FIELDS_AT
    cdef int64_t size
    cdef int letter
    cdef Span name, value
    if end - start < FIELDS_AT:
        return False
    header.code = start[0] << 8 | start[1]
    if not _is_send(header.code):
        return False
    header.opaque = <int32_t>get_u32(start + OPAQUE_AT)
    header.flag = <int32_t>get_u32(start + FLAG_AT)
    size = <int32_t>get_u32(start + FIELDS_SIZE_AT)
    if get_u32(start + REMARK_SIZE_AT) != 0 or not 0 <= size <= end - at:
        return False
    end = at + size
    header.is_ascii = False
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
        letter = _letter_of(header, &name)
        if letter != PROPERTIES and not is_ascii(value.at, value.size):
            return False
        if not _keep_field(header, letter, &name, &value):
            return False
        at = value.at + value.size
    return True


cdef bint read_header(
    int kind, const uint8_t *start, const uint8_t *end, Header *header, Span *own
):
    global _latest
    cdef Cursor cursor
    cdef int index, number
    if kind == JSON_KIND:
        for index in range(PATTERNS):
            number = (_latest + index) % PATTERNS
            if _patterns[number].is_there and _is_like(&_patterns[number], start, end, header):
                _latest = number
                return True
    elif kind != BINARY_KIND:
        return False
    memset(own, 0, LETTERS * sizeof(Span))
    header.fields, header.code, header.is_strange = own, 0, False
    header.user.at = header.signature.at = NULL
    cursor.at, cursor.end = start, end
    if not (_read_binary(start, end, header) if kind == BINARY_KIND else _read_json(&cursor, header)):
        return False
    _note_fixed(header)
    if kind == JSON_KIND:
        _remember(start, &cursor, header)
    return True
