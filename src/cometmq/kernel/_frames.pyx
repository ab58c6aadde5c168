# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `reference.read_commands`: frames and their headers.

A frame that is not plain JSON comes out as its positions, and the Python side reads it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from cometmq.kernel._bytes cimport get_u32
from cometmq.kernel._layouts cimport (
    FRAME_HEAD_HEADER_AT,
    FRAME_HEAD_LENGTH_AT,
    FRAME_HEAD_SIZE,
    HEADER_SIZE_MAX,
)
from cometmq.kernel._scan cimport Scan, is_name, take, take_number, take_plain
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, hex_digit, short_escape
from cometmq.kernel.reference import length_error

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)

cdef enum:
    KNOWN_COUNT = 256
    KNOWN_SIZE_MAX = 64
    LANGUAGE_SLOT = KNOWN_COUNT  # Behind those of fields.
    REMARK_SLOT
    CODING_SLOT

# Names of fields, each with its last value: of a turn's requests most are those of the one before, and a text that is
# there costs a tenth of one that is made, hashed and freed. They take 256 places of at most 64 bytes each.
cdef list _names = [None] * KNOWN_COUNT
cdef list _values = [None] * (KNOWN_COUNT + 3)


cdef str _careful_text(Scan *scan):
    """A JSON string with escapes; \\u escapes below 128 and the short ones are understood."""
    cdef const uint8_t *start
    if not take(scan, c'"'):
        scan.is_good = False
        return ""
    start = scan.at
    while scan.at < scan.end and scan.at[0] != c'"' and scan.at[0] >= 0x20:
        scan.at += 1 + (scan.at[0] == c"\\")
    if scan.at >= scan.end or scan.at[0] != c'"':
        scan.is_good = False
        return ""
    scan.at += 1
    return _unescaped(scan, start, scan.at - 1)


cdef str _unescaped(Scan *scan, const uint8_t *start, const uint8_t *end):
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
                scan.is_good = False
                return ""
            out[0] = code
            start += 6
        else:
            code = short_escape(start[1]) if start + 2 <= end else 0
            if not code:
                scan.is_good = False
                return ""
            out[0] = code
            start += 2
        out += 1
    return PyUnicode_DecodeUTF8(<const char *>first, out - first, NULL)


cdef inline bint _is_known(str text, const uint8_t *at, Py_ssize_t size) except -1:
    """Whether some bytes are a text that is known, which is of ASCII."""
    cdef Py_ssize_t known_size
    cdef const char *known = PyUnicode_AsUTF8AndSize(text, &known_size)
    return known_size == size and memcmp(known, at, size) == 0


cdef inline str _text(list known, Py_ssize_t slot, const uint8_t *at, Py_ssize_t size):
    """Make a text of some bytes; one that came before in its slot is used again, and a short one is kept for the next time."""
    cdef str text = <str>known[slot]
    if text is not None and _is_known(text, at, size):
        return text
    text = PyUnicode_DecodeUTF8(<const char *>at, size, NULL)
    if size <= KNOWN_SIZE_MAX and PyUnicode_IS_ASCII(text):
        known[slot] = text
    return text


cdef int _take_field(Scan *scan, dict fields) except -1:
    """Take the name and the value of one field of a header."""
    cdef Py_ssize_t size, slot = 0
    cdef str name, value
    cdef const uint8_t *at = take_plain(scan, &size)
    if at is NULL:
        name = _careful_text(scan)
    else:
        if size:
            slot = (size * 31 + at[0] * 7 + at[size - 1]) % KNOWN_COUNT
        name = _text(_names, slot, at, size)
    if not take(scan, c":"):
        scan.is_good = False
        return 0
    at = take_plain(scan, &size)
    value = _careful_text(scan) if at is NULL else _text(_values, slot, at, size)
    fields[name] = value
    return 0


cdef dict _fields(Scan *scan):
    cdef dict fields = {}
    if not take(scan, c"{"):
        scan.is_good = False
        return fields
    if take(scan, c"}"):
        return fields
    while scan.is_good:
        _take_field(scan, fields)
        if take(scan, c"}"):
            return fields
        if not take(scan, c","):
            break
    scan.is_good = False
    return fields


cdef inline str _word(Scan *scan, Py_ssize_t slot):
    """A plain text of the header itself; None where another value stands."""
    cdef Py_ssize_t size
    cdef const uint8_t *at = take_plain(scan, &size)
    return None if at is NULL else _text(_values, slot, at, size)


cdef object _command(const uint8_t *start, const uint8_t *end, dict languages, bytes body):
    """The command of a header that has what official clients write; None for any other."""
    cdef Scan scan
    cdef const uint8_t *at
    cdef Py_ssize_t size = 0
    cdef object code = None, flag = None, opaque = None, version = None, language = None
    cdef object fields = None, remark = None
    scan.at, scan.end, scan.is_good = start, end, True
    if not take(&scan, c"{"):
        return None
    while True:
        at = take_plain(&scan, &size)
        if at is NULL or not take(&scan, c":"):
            return None
        if is_name(at, size, b"code", 4):
            code = take_number(&scan)
        elif is_name(at, size, b"extFields", 9):
            fields = _fields(&scan)
        elif is_name(at, size, b"flag", 4):
            flag = take_number(&scan)
        elif is_name(at, size, b"language", 8):
            language = languages.get(_word(&scan, LANGUAGE_SLOT))
        elif is_name(at, size, b"opaque", 6):
            opaque = take_number(&scan)
        elif is_name(at, size, b"version", 7):
            version = take_number(&scan)
        elif is_name(at, size, b"remark", 6):  # Of an answer to a pull.
            remark = _word(&scan, REMARK_SLOT)
            if remark is None:
                return None
        elif is_name(at, size, b"serializeTypeCurrentRPC", 23):
            if _word(&scan, CODING_SLOT) != "JSON":
                return None
        else:
            return None
        if not scan.is_good:
            return None
        if take(&scan, c"}"):
            break
        if not take(&scan, c","):
            return None
    if scan.at != scan.end or code is None or flag is None or opaque is None:
        return None
    if version is None or language is None or fields is None:
        return None
    return (code, flag, opaque, language, version, remark, fields, body, 0)


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
        length = <int32_t>get_u32(data + position + FRAME_HEAD_LENGTH_AT)
        header = get_u32(data + position + FRAME_HEAD_HEADER_AT)
        if not 4 <= length <= limit - 4:
            if items:
                break
            raise length_error(length, limit)
        end = position + FRAME_HEAD_HEADER_AT + length  # It counts all behind itself.
        if end > size:
            break
        start = position + FRAME_HEAD_SIZE
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
