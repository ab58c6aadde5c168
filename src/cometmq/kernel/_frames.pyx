# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `reference.read_commands`: frames and their headers.

A frame that is not plain JSON comes out as its positions, and the Python side reads it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from cometmq.kernel._bytes cimport get_u32
from cometmq.kernel._layouts cimport (
    FRAME_HEAD_HEADER_AT,
    FRAME_HEAD_LENGTH_AT,
    FRAME_HEAD_SIZE,
    HEADER_SIZE_MAX,
)
from cometmq.kernel._text cimport get_decimal
from cometmq.kernel.reference import length_error


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
