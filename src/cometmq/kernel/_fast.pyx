# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `reference` and `sends`: the same functions, the same results.

What is unusual in any way is left to the Python side, by the same rules there: a frame that is not
plain JSON comes out as its positions, a send that is not plain ends the loop, and an answer with a
key to be escaped is not made here. So this file has no rare cases, only the common ones.
"""

from cometmq.kernel.crc import crc32

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from cometmq.kernel._bytes cimport get_u32, get_u64, put_u32, put_u64
from cometmq.kernel._text cimport hash_on, is_ascii, last_value
from cometmq.kernel.keys import NOT_INDEXED as _NOT_INDEXED
from cometmq.kernel.records import RECORD_FIELDS as _RECORD_FIELDS
from cometmq.kernel.reference import (
    FRAME_HEAD_SIZE as _FRAME_HEAD_SIZE,
    GAP_CODE as _GAP_CODE,
    MAGIC_V1 as _MAGIC_V1,
    MAGIC_V2 as _MAGIC_V2,
    PLACE_AT as _PLACE_AT,
    RECORD_SIZE_MIN as _RECORD_SIZE_MIN,
    java_hash_many as _hash_any,
    length_error,
)
from cometmq.model.flags import (
    TRANSACTION_COMMIT as _TRANSACTION_COMMIT,
    TRANSACTION_MASK as _TRANSACTION_MASK,
)
from cometmq.kernel.sends import (
    END as END_TEXT,
    KEY as KEY_TEXT,
    MIDDLE as MIDDLE_TEXT,
    OFFSET as OFFSET_TEXT,
    PROPERTIES_SIZE_MAX as _PROPERTIES_SIZE_MAX,
    encode_answers as _encode_any_answers,
)

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
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    int PyUnicode_IS_ASCII(object text)
    PyObject *borrowed_item "PyTuple_GET_ITEM"(PyObject *whole, Py_ssize_t index)

cdef uint32_t MAGIC_V1 = _MAGIC_V1
cdef uint32_t MAGIC_V2 = _MAGIC_V2
cdef Py_ssize_t PLACE_AT = _PLACE_AT
cdef Py_ssize_t RECORD_SIZE_MIN = _RECORD_SIZE_MIN
cdef Py_ssize_t PROPERTIES_SIZE_MAX = _PROPERTIES_SIZE_MAX
cdef Py_ssize_t FRAME_HEAD_SIZE = _FRAME_HEAD_SIZE
cdef int HEADER_SIZE_MAX = 0xFFFFFF
cdef int SEND_V2 = 310
cdef int ONEWAY_BIT = 2
cdef int ENTRY_SIZE = 20
cdef int CACHE_LINE = 64
# As many as are fetched before the first is here; one that is special wastes what was found behind it.
cdef enum:
    LANES_AHEAD = 32
cdef int64_t GAP_CODE = _GAP_CODE
cdef int TOPIC_BLOCK_V1_MAX = 128  # The length in one byte, then 127 of them.
cdef int BATCH_HEAD_SIZE = 20
cdef int FIXED_SIZE = 74  # Of a record, without hosts, body, topic and properties.
cdef int NOT_INDEXED = _NOT_INDEXED
cdef int TRANSACTION_COMMIT = _TRANSACTION_COMMIT
cdef int TRANSACTION_MASK = _TRANSACTION_MASK
cdef Py_ssize_t RECORD_FIELDS = _RECORD_FIELDS
cdef Py_ssize_t KEY_AT = len(b"UNIQ_KEY\1")

cdef const char *HEX_DIGITS = b"0123456789ABCDEF"
cdef bytes _offset = OFFSET_TEXT.encode(), _key = KEY_TEXT.encode()
cdef bytes _middle = MIDDLE_TEXT.encode(), _end = END_TEXT.encode()
cdef const char *OFFSET = _offset
cdef const char *KEY = _key
cdef const char *MIDDLE = _middle
cdef const char *END = _end
cdef Py_ssize_t OFFSET_SIZE = len(_offset), KEY_SIZE = len(_key)
cdef Py_ssize_t MIDDLE_SIZE = len(_middle), END_SIZE = len(_end)


# --- numbers


cdef inline uint8_t *put_u16(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = value >> 8 & 0xFF
    at[1] = value & 0xFF
    return at + 2


cdef inline uint8_t *put_bytes(uint8_t *at, const void *start, Py_ssize_t size) noexcept nogil:
    memcpy(at, start, size)
    return at + size


cdef uint8_t *put_decimal(uint8_t *at, int64_t value) noexcept nogil:
    cdef uint8_t digits[20]
    cdef int count = 0
    cdef uint64_t rest = value
    if value < 0:
        at[0] = c"-"
        at += 1
        rest = 0 - rest
    while True:
        digits[count] = c"0" + rest % 10
        rest //= 10
        count += 1
        if rest == 0:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    return at


cdef int64_t get_decimal(const uint8_t *at, Py_ssize_t size, bint *is_good) noexcept nogil:
    """A number as JSON writes it, of at most 18 digits."""
    cdef int64_t value = 0
    cdef bint is_negative = size > 0 and at[0] == c"-"
    cdef Py_ssize_t i = is_negative
    is_good[0] = i < size <= i + 18 and (at[i] != c"0" or (size == 1))
    while i < size:
        if not c"0" <= at[i] <= c"9":
            is_good[0] = False
            return 0
        value = value * 10 + (at[i] - c"0")
        i += 1
    return -value if is_negative else value


# --- frames and their headers


cdef class _Scan:
    """Where a header is being read; any surprise makes `is_good` false for good."""

    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef const uint8_t *name
    cdef Py_ssize_t name_size
    cdef bint is_good

    cdef bint take(self, uint8_t expected) noexcept:
        if self.at < self.end and self.at[0] == expected:
            self.at += 1
            return True
        return False

    cdef int64_t number(self):
        cdef const uint8_t *start = self.at
        cdef bint is_good = False
        cdef int64_t value
        while self.at < self.end and (c"0" <= self.at[0] <= c"9" or self.at[0] == c"-"):
            self.at += 1
        value = get_decimal(start, self.at - start, &is_good)
        if not is_good or not -0x80000000 <= value <= 0x7FFFFFFF:
            self.is_good = False
        return value

    cdef void take_name(self) noexcept:
        """A JSON string that is compared and not kept; one with an escape is a surprise."""
        if not self.take(c'"'):
            self.is_good = False
            return
        self.name = self.at
        while self.at < self.end and self.at[0] != c'"':
            self.is_good = self.is_good and self.at[0] >= 0x20 and self.at[0] != c"\\"
            self.at += 1
        self.name_size = self.at - self.name
        if not self.take(c'"'):
            self.is_good = False

    cdef bint is_name(self, const char *name, Py_ssize_t size) noexcept:
        return self.name_size == size and memcmp(self.name, name, size) == 0

    cdef str text(self):
        """A JSON string; \\u escapes below 128 and the short ones are understood."""
        cdef const uint8_t *start
        cdef bint is_escaped = False
        if not self.take(c'"'):
            self.is_good = False
            return ""
        start = self.at
        while self.at < self.end and self.at[0] != c'"':
            if self.at[0] < 0x20:
                break
            if self.at[0] == c"\\":
                is_escaped = True
                self.at += 1
            self.at += 1
        if self.at >= self.end or self.at[0] != c'"':
            self.is_good = False
            return ""
        self.at += 1
        if is_escaped:
            return self.unescaped(start, self.at - 1)
        return PyUnicode_DecodeUTF8(<const char *>start, self.at - 1 - start, NULL)

    cdef str unescaped(self, const uint8_t *start, const uint8_t *end):
        cdef bytes room = PyBytes_FromStringAndSize(NULL, end - start)
        cdef uint8_t *first = <uint8_t *>PyBytes_AS_STRING(room)
        cdef uint8_t *out = first
        cdef int code
        while start < end:
            if start[0] != c"\\":
                out[0] = start[0]
                start += 1
            elif start + 6 <= end and start[1] == c"u" and start[2] == c"0" and start[3] == c"0":
                code = hex_digit(start[4]) * 16 + hex_digit(start[5])
                if not 0 <= code < 128 or hex_digit(start[4]) < 0 or hex_digit(start[5]) < 0:
                    self.is_good = False
                    return ""
                out[0] = code
                start += 6
            else:
                code = short_escape(start[1]) if start + 2 <= end else 0
                if not code:
                    self.is_good = False
                    return ""
                out[0] = code
                start += 2
            out += 1
        return PyUnicode_DecodeUTF8(<const char *>first, out - first, NULL)


cdef inline int hex_digit(uint8_t digit) noexcept nogil:
    if c"0" <= digit <= c"9":
        return digit - c"0"
    digit |= 0x20
    return digit - c"a" + 10 if c"a" <= digit <= c"f" else -1


cdef inline int short_escape(uint8_t letter) noexcept nogil:
    if letter == c'"' or letter == c"\\" or letter == c"/":
        return letter
    if letter == c"n":
        return 10
    if letter == c"t":
        return 9
    if letter == c"r":
        return 13
    if letter == c"b":
        return 8
    if letter == c"f":
        return 12
    return 0


cdef dict _fields(_Scan scan):
    cdef dict fields = {}
    cdef str name
    if not scan.take(c"{"):
        scan.is_good = False
        return fields
    if scan.take(c"}"):
        return fields
    while scan.is_good:
        name = scan.text()
        if not scan.take(c":"):
            break
        fields[name] = scan.text()
        if scan.take(c"}"):
            return fields
        if not scan.take(c","):
            break
    scan.is_good = False
    return fields


cdef object _command(const uint8_t *start, const uint8_t *end, dict languages, bytes body):
    """The command of a header that has what official clients write; None for any other."""
    cdef _Scan scan = _Scan.__new__(_Scan)
    cdef object code = None, flag = None, opaque = None, version = None, language = None
    cdef object fields = None
    scan.at, scan.end, scan.is_good = start, end, True
    if not scan.take(c"{"):
        return None
    while True:
        scan.take_name()
        if not scan.is_good or not scan.take(c":"):
            return None
        if scan.is_name(b"code", 4):
            code = scan.number()
        elif scan.is_name(b"extFields", 9):
            fields = _fields(scan)
        elif scan.is_name(b"flag", 4):
            flag = scan.number()
        elif scan.is_name(b"language", 8):
            language = languages.get(scan.text())
        elif scan.is_name(b"opaque", 6):
            opaque = scan.number()
        elif scan.is_name(b"version", 7):
            version = scan.number()
        elif scan.is_name(b"serializeTypeCurrentRPC", 23):
            scan.take_name()
            if not scan.is_name(b"JSON", 4):
                return None
        else:
            return None
        if not scan.is_good:
            return None
        if scan.take(c"}"):
            break
        if not scan.take(c","):
            return None
    if scan.at != scan.end or code is None or flag is None or opaque is None:
        return None
    if version is None or language is None or fields is None:
        return None
    return (code, flag, opaque, language, version, None, fields, body, 0)


def read_commands(
    bytes buffer, Py_ssize_t position, Py_ssize_t limit, Py_ssize_t header_size_max,
    dict languages,
):
    """See `cometmq.kernel.reference.read_commands`; plain JSON frames come out as commands."""
    cdef list items = []
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(buffer)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(buffer)
    cdef Py_ssize_t start, body_start, end
    cdef int64_t length
    cdef uint32_t header
    cdef object command
    cdef bint are_commands = True
    while position <= size - FRAME_HEAD_SIZE:
        length = <int32_t>get_u32(data + position)
        header = get_u32(data + position + 4)
        if not 4 <= length <= limit - 4:
            if items:
                break
            raise length_error(length, limit)
        end = position + 4 + length
        if end > size:
            break
        start = position + 8
        body_start = start + (header & HEADER_SIZE_MAX)
        command = None
        if header <= header_size_max and body_start <= end:
            try:
                command = _command(
                    data + start, data + body_start, languages, buffer[body_start:end]
                )
            except UnicodeDecodeError:
                pass  # The careful way says what is wrong with it.
        if command is None:
            command = (header >> 24, start, body_start, end)
            are_commands = False
        items.append(command)
        position = end
    return items, position, are_commands


# --- sends


cdef object _field(dict fields, name):
    """What a text names; None for nothing, and for what is no text (a peer may send anything)."""
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
    """What stands around the unique key; `sends.shape_of` says the same of a str."""
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


def plain_sends(
    list commands, Py_ssize_t first, dict straight, dict shapes, look, bytes suffix,
    bytes host, Py_ssize_t body_size_max, list puts, list pending,
):
    """See `cometmq.kernel.sends.plain_sends`."""
    cdef Py_ssize_t index, size, key_at, key_end, suffix_size = PyBytes_GET_SIZE(suffix)
    cdef const char *text
    cdef const char *found
    cdef int64_t number = 0
    cdef tuple command, lane
    cdef dict fields
    cdef bytes body, properties
    cdef object some, block, shape, tags_code, user_flag, tried
    cdef object born_text = None, born_ms = None
    cdef PyObject *lanes[LANES_AHEAD]
    cdef Py_ssize_t start = first, end = first
    for index in range(first, len(commands)):
        if index == end:
            start, end = end, end + _find_lanes(commands, end, straight, lanes)
            if index == end:
                return index
        command = <tuple>commands[index]
        fields, body = <dict>command[6], <bytes>command[7]
        if not 0 < PyBytes_GET_SIZE(body) <= body_size_max:
            return index
        block = _field(fields, "i")
        if type(block) is not str or _field(fields, "f") != "0":
            return index
        some = _field(fields, "m")
        if some is not None and some != "false":  # A batch, however it says so.
            return index
        lane = <tuple>lanes[index - start]
        try:
            text = PyUnicode_AsUTF8AndSize(block, &size)
        except UnicodeEncodeError:
            return index
        found = <const char *>memmem(text, size, b"UNIQ_KEY\1", KEY_AT)
        if found is NULL or size + suffix_size > PROPERTIES_SIZE_MAX:
            return index
        key_at = found - text + KEY_AT
        found = <const char *>memchr(text + key_at, 2, size - key_at)
        if found is NULL:
            return index
        key_end = found - text
        shape = _shape(text, key_at, key_end, size)
        tags_code = _field(shapes, shape)
        if tags_code is None:
            tags_code = look(shape)
            if tags_code is None:
                return index

        some = _field(fields, "g")
        if born_ms is None or some != born_text:  # Mostly one millisecond a read.
            if not _int_of(some, -(1 << 62), 1 << 62, &number):
                return index
            born_text, born_ms = some, number
        if not _int_of(_field(fields, "h"), -0x80000000, 0x7FFFFFFF, &number):
            return index
        user_flag, tried = number, 0
        some = _field(fields, "j")
        if some is not None:
            if not _int_of(some, -0x80000000, 0x7FFFFFFF, &number):
                return index
            tried = number

        properties = PyBytes_FromStringAndSize(NULL, size + suffix_size)
        memcpy(PyBytes_AS_STRING(properties), text, size)
        memcpy(PyBytes_AS_STRING(properties) + size, PyBytes_AS_STRING(suffix), suffix_size)
        puts.append((
            lane[0], lane[1], body, properties, tags_code,
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
        item_size = <int32_t>get_u32(data + position)
        flag = <int32_t>get_u32(data + position + 12)
        body_size = <int32_t>get_u32(data + position + 16)
        start = position + BATCH_HEAD_SIZE
        own_at = start + body_size
        if body_size < 0 or own_at + 2 > size:
            return False
        own_size = data[own_at] << 8 | data[own_at + 1]
        position += item_size
        if own_at + 2 + own_size != position or position > size:
            return False
        try:
            code = _tags_code(<const char *>data + own_at + 2, own_size, hash_of)
        except UnicodeDecodeError:
            return False
        mended = own_size > 0 and data[position - 1] != 2
        if code is None or own_size + mended + shared_size > PROPERTIES_SIZE_MAX:
            return False
        block = PyBytes_FromStringAndSize(NULL, own_size + mended + shared_size)
        room = PyBytes_AS_STRING(block)
        memcpy(room, data + own_at + 2, own_size)
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


# --- records


def pack_records(
    list puts, Py_ssize_t first, int64_t position, int64_t end, dict layouts, int64_t store_ms,
    bytes store_host, due_ms, list content, list arrivals, list results,
):
    """See `cometmq.kernel.sends.pack_records`."""
    cdef Py_ssize_t index, last = first, count = len(puts)
    cdef Py_ssize_t body_size, topic_size, properties_size, host_size
    cdef int64_t total = 0, size, queue_offset
    cdef tuple put, layout
    cdef bytes room, topic, born_host
    cdef object body, properties, queue, code
    cdef uint8_t *at
    while last < count:
        put = <tuple>puts[last]
        size = _record_size(put, layouts)
        if position + total + size > end:
            break
        total += size
        last += 1
    if last == first:
        return first, position
    room = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(room)
    for index in range(first, last):
        put = <tuple>puts[index]
        queue, topic, born_host = put[0], <bytes>put[1], <bytes>put[8]
        body = put[2] if type(put[2]) is bytes else bytes(put[2])
        properties = put[3] if type(put[3]) is bytes else bytes(put[3])
        layout = <tuple>layouts[len(born_host)]
        body_size, topic_size = PyBytes_GET_SIZE(body), PyBytes_GET_SIZE(topic)
        properties_size, host_size = PyBytes_GET_SIZE(properties), PyBytes_GET_SIZE(born_host)
        size = <int64_t>layout[1] + body_size + topic_size + properties_size
        if <int64_t>layout[1] != FIXED_SIZE + host_size + PyBytes_GET_SIZE(store_host):
            raise ValueError("a layout for hosts of another kind")
        if properties_size > 0xFFFF:
            raise OverflowError("properties that are longer than a record can say")
        queue_id = <int32_t>queue.queue_id
        queue_offset = 0
        if <int>put[11] == 0 or <int>put[11] == TRANSACTION_COMMIT:
            queue_offset = queue.next_offset
            code = due_ms(queue.queue_id) if put[4] is None else put[4]
        at = put_u32(at, <uint32_t>size)
        at = put_u32(at, MAGIC_V1 if topic_size <= TOPIC_BLOCK_V1_MAX else MAGIC_V2)
        at = put_u32(at, <uint32_t>crc32(body) & 0x7FFFFFFF)
        at = put_u32(at, <uint32_t><int32_t>queue_id)
        at = put_u32(at, <uint32_t><int32_t>put[5])
        at = put_u64(at, <uint64_t>queue_offset)
        at = put_u64(at, <uint64_t>position)
        at = put_u32(at, <uint32_t>(<int32_t>put[6] | <int32_t>layout[2]))
        at = put_u64(at, <uint64_t><int64_t>put[7])
        at = put_bytes(at, PyBytes_AS_STRING(born_host), host_size)
        at = put_u64(at, <uint64_t>store_ms)
        at = put_bytes(at, PyBytes_AS_STRING(store_host), PyBytes_GET_SIZE(store_host))
        at = put_u32(at, <uint32_t><int32_t>put[9])
        at = put_u64(at, <uint64_t><int64_t>put[10])
        at = put_u32(at, <uint32_t>body_size)
        at = put_bytes(at, PyBytes_AS_STRING(body), body_size)
        at = put_bytes(at, PyBytes_AS_STRING(topic), topic_size)
        at = put_u16(at, <uint32_t>properties_size)
        at = put_bytes(at, PyBytes_AS_STRING(properties), properties_size)
        if <int>put[11] == 0 or <int>put[11] == TRANSACTION_COMMIT:
            queue.next_offset = queue_offset + 1
            arrivals.append((queue, queue_offset, position, size, code))
        results.append((queue_offset, position, size))
        position += size
    content.append(room)
    return last, position


cdef int64_t _record_size(tuple put, dict layouts) except -1:
    cdef tuple layout = <tuple>layouts[len(<object>put[8])]
    return (
        <int64_t>layout[1] + len(<object>put[2]) + PyBytes_GET_SIZE(<bytes>put[1])
        + len(<object>put[3])
    )


# --- queue entries


def show_entries(list arrivals, dict dirty, Py_ssize_t tail_size_max, list full, dict watched):
    """See `cometmq.kernel.sends.show_entries`."""
    cdef tuple arrival
    cdef object queue, tail
    cdef Py_ssize_t size
    cdef uint8_t *at
    for arrival in arrivals:
        queue = arrival[0]
        tail = queue.tail
        size = PyByteArray_GET_SIZE(tail)
        if size == 0:
            dirty[queue] = None
        PyByteArray_Resize(tail, size + ENTRY_SIZE)
        at = <uint8_t *>PyByteArray_AS_STRING(tail) + size
        at = put_u64(at, <uint64_t><int64_t>arrival[2])
        at = put_u32(at, <uint32_t><int32_t>arrival[3])
        put_u64(at, <uint64_t><int64_t>arrival[4])
        queue.max_offset = <int64_t>arrival[1] + 1
        if size + ENTRY_SIZE >= tail_size_max:
            full.append(queue)
        if queue.watched:
            watched.setdefault(queue, []).append(arrival[4])


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
    if entries.shape[0] % ENTRY_SIZE:
        raise ValueError("entries that are not whole")
    while position < entries.shape[0]:
        at = &entries[position]
        position += ENTRY_SIZE
        size = <int32_t>get_u32(at + 8)
        if size <= 0 or (count and (count >= count_max or total + size > size_max)):
            break
        physical_offset = <int64_t>get_u64(at)
        tags_code = <int64_t>get_u64(at + 12)
        looked += 1
        if physical_offset < log_start or size == 0x7FFFFFFF or tags_code == GAP_CODE:
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


def count_records(const uint8_t[::1] piece):
    """See `cometmq.kernel.reference.count_records`."""
    cdef Py_ssize_t position = 0, end = piece.shape[0], count = 0
    cdef int64_t before = -1, place
    cdef int32_t size
    cdef uint32_t magic
    cdef const uint8_t *at
    while position < end:
        if end - position < RECORD_SIZE_MIN:
            return -1
        at = &piece[position]
        size = <int32_t>get_u32(at)
        magic = get_u32(at + 4)
        place = <int64_t>get_u64(at + PLACE_AT)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_SIZE_MIN:
            return -1
        if size > end - position or place <= before:
            return -1
        before = place
        position += size
        count += 1
    return count


# --- answers


cdef int _digits(int64_t value) noexcept nogil:
    cdef int count = 1 + (value < 0)
    cdef uint64_t rest = value
    if value < 0:
        rest = 0 - rest
    while rest >= 10:
        rest //= 10
        count += 1
    return count


cdef bint _is_plain_key(str key):
    cdef Py_ssize_t size, i
    cdef const char *at
    if not PyUnicode_IS_ASCII(key):
        return False
    at = PyUnicode_AsUTF8AndSize(key, &size)
    for i in range(size):
        if not (c"0" <= at[i] <= c"9" or c"A" <= (at[i] & 0xDF) <= c"Z"):
            return False
    return True


cdef Py_ssize_t _header_size(tuple one, tuple result) except -1:
    """Bytes of an answer's header; 0 when nobody waits for it."""
    if one[1] is None:
        return 0
    return (
        len(<str>one[1]) + 16 + OFFSET_SIZE + _digits(<int64_t>result[0]) + KEY_SIZE
        + len(<str>one[2]) + MIDDLE_SIZE + _digits(<int64_t>one[0]) + END_SIZE
    )


def encode_answers(list pending, list results):
    """See `cometmq.kernel.sends.encode_answers`."""
    try:
        return _encode_answers(pending, results)
    except OverflowError:
        return _encode_any_answers(pending, results)  # An opaque of more than 64 bits.


cdef bytes _encode_answers(list pending, list results):
    cdef Py_ssize_t index, size, total = 0, part
    cdef tuple one, result
    cdef bytes room
    cdef uint8_t *at
    cdef const char *text
    cdef int shift
    if len(pending) != len(results):
        raise ValueError("as many answers as sends")
    for index in range(len(pending)):
        one, result = <tuple>pending[index], <tuple>results[index]
        if not _is_plain_key(<str>one[2]):
            return _encode_any_answers(pending, results)
        if one[1] is not None and not PyUnicode_IS_ASCII(one[1]):
            return _encode_any_answers(pending, results)
        size = _header_size(one, result)
        total += size + 8 if size else 0
    room = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(room)
    for index in range(len(pending)):
        one, result = <tuple>pending[index], <tuple>results[index]
        size = _header_size(one, result)
        if not size:
            continue
        at = put_u32(at, <uint32_t>(size + 4))
        at = put_u32(at, <uint32_t>size)
        text = PyUnicode_AsUTF8AndSize(one[1], &part)
        at = put_bytes(at, text, part)
        for shift in range(60, -4, -4):
            at[0] = HEX_DIGITS[(<uint64_t><int64_t>result[1] >> shift) & 15]
            at += 1
        at = put_bytes(at, OFFSET, OFFSET_SIZE)
        at = put_decimal(at, <int64_t>result[0])
        at = put_bytes(at, KEY, KEY_SIZE)
        text = PyUnicode_AsUTF8AndSize(one[2], &part)
        at = put_bytes(at, text, part)
        at = put_bytes(at, MIDDLE, MIDDLE_SIZE)
        at = put_decimal(at, <int64_t>one[0])
        at = put_bytes(at, END, END_SIZE)
    return room


# --- requests


cdef Py_ssize_t _text_size(object text) except -1:
    cdef Py_ssize_t size
    PyUnicode_AsUTF8AndSize(text, &size)
    return size


cdef uint8_t *_put_text(uint8_t *at, object text) except NULL:
    cdef Py_ssize_t size
    cdef const char *start = PyUnicode_AsUTF8AndSize(text, &size)
    return put_bytes(at, start, size)


cdef Py_ssize_t _send_header_size(tuple item) except -1:
    return (
        _text_size(item[0]) + _digits(<int64_t>item[1]) + _text_size(item[2])
        + _text_size(item[3]) + _digits(<int64_t>item[4]) + _text_size(item[5])
    )


def encode_requests(list items not None):
    """See `cometmq.kernel.requests.encode_requests`."""
    cdef Py_ssize_t total = 0, size, body_size
    cdef object item
    cdef tuple send
    cdef bytes room
    cdef uint8_t *at
    for item in items:
        if type(item) is bytes:
            total += PyBytes_GET_SIZE(item)
        else:
            total += FRAME_HEAD_SIZE + _send_header_size(item) + PyBytes_GET_SIZE(<bytes?>item[6])
    room = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(room)
    for item in items:
        if type(item) is bytes:
            at = put_bytes(at, PyBytes_AS_STRING(item), PyBytes_GET_SIZE(item))
            continue
        send = <tuple>item
        size, body_size = _send_header_size(send), PyBytes_GET_SIZE(<bytes>send[6])
        at = put_u32(at, <uint32_t>(4 + size + body_size))
        at = put_u32(at, <uint32_t>size)
        at = _put_text(at, send[0])
        at = put_decimal(at, <int64_t>send[1])
        at = _put_text(at, send[2])
        at = _put_text(at, send[3])
        at = put_decimal(at, <int64_t>send[4])
        at = _put_text(at, send[5])
        at = put_bytes(at, PyBytes_AS_STRING(<bytes>send[6]), body_size)
    return room


# --- the index


def java_hash_many(texts):
    """See `cometmq.kernel.reference.java_hash_many`."""
    cdef list hashes = []
    cdef object text
    cdef const uint8_t *at
    cdef Py_ssize_t size
    for text in texts:
        at, size = <const uint8_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
        if is_ascii(at, size):
            hashes.append(<int32_t>hash_on(0, at, size))
        else:
            hashes += _hash_any([text])
    return hashes


def index_insert(int32_t[::1] slots, int32_t number, hashes, offsets, seconds):
    """See `cometmq.kernel.reference.index_insert`."""
    cdef Py_ssize_t index, count = len(hashes)
    cdef uint32_t slot_count = slots.shape[0]
    cdef uint32_t key_hash, slot
    cdef int32_t previous, fresh = 0
    cdef bytes entries = PyBytes_FromStringAndSize(NULL, count * ENTRY_SIZE)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(entries)
    if len(offsets) != count or len(seconds) != count:
        raise ValueError("a hash, an offset and a time for each key")
    if slot_count == 0:
        raise ZeroDivisionError("an index file without slots")
    for index in range(count):
        key_hash = <uint32_t><int32_t>hashes[index]
        if key_hash >> 31:
            key_hash = (0 - key_hash) & 0x7FFFFFFF
        slot = key_hash % slot_count
        previous = slots[slot]
        if not 0 < previous < number:
            previous = 0
            fresh += 1
        at = put_u32(at, key_hash)
        at = put_u64(at, <uint64_t><int64_t>offsets[index])
        at = put_u32(at, <uint32_t><int32_t>seconds[index])
        at = put_u32(at, <uint32_t>previous)
        slots[slot] = number
        number += 1
    return entries, fresh


cdef object _key_hash(uint32_t begun, bytes topic, const uint8_t *key, Py_ssize_t size):
    """The hash of "topic#key", whose first part is hashed already."""
    if begun and is_ascii(key, size):
        return <int32_t>hash_on(begun, key, size)
    return _hash_any([topic + b"#" + key[:size]])[0]


cdef class _Keys:
    """Gathers the keys of messages, each with its record's place and time."""

    cdef list found
    cdef bytes topic
    cdef uint32_t begun

    def __cinit__(self):
        self.found = []

    cdef int begin(self, object topic) except -1:
        """The keys that follow are of a topic."""
        self.topic = topic.encode()
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(self.topic)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self.topic)
        self.begun = hash_on(hash_on(0, at, size), b"#", 1) if is_ascii(at, size) else 0
        return 0

    cdef int add(self, object given, object offset, object store_ms) except -1:
        """The keys that a block of properties names."""
        cdef Py_ssize_t size = 0, start
        cdef bytes block = given if type(given) is bytes else bytes(given)
        cdef const uint8_t *at = last_value(
            <const uint8_t *>PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block),
            b"UNIQ_KEY\1", 9, &size,
        )
        if at is not NULL:
            self.found.append((_key_hash(self.begun, self.topic, at, size), offset, store_ms))
        at = last_value(
            <const uint8_t *>PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block),
            b"KEYS\1", 5, &size,
        )
        while at is not NULL and size:
            start = 0
            while start < size and at[start] != c" ":
                start += 1
            if start:
                self.found.append((_key_hash(self.begun, self.topic, at, start), offset, store_ms))
            if start < size:
                start += 1
            at += start
            size -= start
        return 0


def index_keys(list waiting):
    """See `cometmq.kernel.keys.index_keys`."""
    cdef _Keys keys = _Keys()
    cdef tuple batch, put
    cdef list results
    cdef object store_ms, queue, topic, last_queue = None, last_topic = None, puts
    cdef Py_ssize_t index
    for batch in waiting:
        puts, results, store_ms = batch[0], <list>batch[1], batch[2]
        if len(puts) != len(results):
            raise ValueError("a result for each put")
        for index in range(len(results)):
            put = <tuple>puts[index]
            if <int>put[11] == NOT_INDEXED:
                continue
            queue = put[0]
            if queue is not last_queue:
                last_queue, topic = queue, queue.topic
                if topic is not last_topic:  # Its other queues have the same.
                    last_topic = topic
                    keys.begin(topic)
            keys.add(put[3], (<tuple>results[index])[1], store_ms)
    return keys.found


def record_keys(records):
    """See `cometmq.kernel.keys.record_keys`."""
    cdef _Keys keys = _Keys()
    cdef tuple fields
    cdef object record, topic, last_topic = None
    for record in records:
        if not isinstance(record, tuple) or len(record) != RECORD_FIELDS:
            raise ValueError("no record")
        fields = <tuple>record
        if <int>fields[7] & TRANSACTION_MASK == NOT_INDEXED:
            continue
        topic = fields[15]
        if topic is not last_topic:
            last_topic = topic
            keys.begin(topic)
        keys.add(fields[16], fields[6], fields[10])
    return keys.found
