# A JSON header, read from its begin to its end.
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from cometmq.kernel._blocks cimport Span
from cometmq.kernel._text cimport first_byte, get_decimal, is_ascii, json_stops, word_at


cdef struct Scan:
    # Where a header is being read; any surprise makes `is_good` false for good.
    const uint8_t *at
    const uint8_t *end
    bint is_good


cdef inline bint take(Scan *scan, uint8_t expected) noexcept:
    if scan.at < scan.end and scan.at[0] == expected:
        scan.at += 1
        return True
    return False


cdef inline int64_t take_number(Scan *scan) noexcept:
    cdef const uint8_t *start = scan.at
    cdef const uint8_t *at = scan.at
    cdef bint is_good = False
    cdef int64_t value
    while at < scan.end and (c"0" <= at[0] <= c"9" or at[0] == c"-"):
        at += 1
    scan.at = at
    value = get_decimal(start, at - start, &is_good)
    if not is_good or not -0x80000000 <= value <= 0x7FFFFFFF:
        scan.is_good = False
    return value


cdef inline const uint8_t *take_plain(Scan *scan, Py_ssize_t *size) noexcept:
    """What is between two quotes; NULL, and nothing is taken, where an escape is in it or it does not end.

    A header is within a bytes object, behind which stands a zero, at which it ends in any case.
    """
    cdef const uint8_t *start = scan.at + 1
    cdef const uint8_t *at = start
    cdef uint64_t stops
    if scan.at >= scan.end or scan.at[0] != c'"':
        return NULL
    while scan.end - at >= 8:
        stops = json_stops(word_at(at))
        if stops:
            at += first_byte(stops)
            break
        at += 8
    else:
        while at[0] >= 0x20 and at[0] != c'"' and at[0] != c"\\":
            at += 1
    if at >= scan.end or at[0] != c'"':
        return NULL
    size[0] = at - start
    scan.at = at + 1
    return start


cdef inline bint is_name(const uint8_t *at, Py_ssize_t size, const char *name, Py_ssize_t name_size) noexcept:
    return size == name_size and memcmp(at, name, size) == 0


cdef enum:
    FIELDS_MAX = 24  # Of a header that is read here; official clients and brokers write fewer.


cdef struct Head:
    # A header as official clients and brokers write it: its numbers, and its fields in their order.
    int64_t code
    int64_t flag
    int64_t opaque
    Py_ssize_t count
    Span names[FIELDS_MAX]
    Span values[FIELDS_MAX]


cdef enum:
    # Names of a header that were there.
    CODE = 1
    FLAG = 2
    OPAQUE = 4
    VERSION = 8
    FIELDS = 16
    LANGUAGE = 32
    CODING = 64
    NEEDED = CODE | FLAG | OPAQUE | FIELDS


cdef inline int head_name(const uint8_t *at, Py_ssize_t size) noexcept:
    """Which name of a header that is; 0: none that official clients and brokers write."""
    if is_name(at, size, b"code", 4):
        return CODE
    if is_name(at, size, b"flag", 4):
        return FLAG
    if is_name(at, size, b"opaque", 6):
        return OPAQUE
    if is_name(at, size, b"version", 7):
        return VERSION
    if is_name(at, size, b"extFields", 9):
        return FIELDS
    if is_name(at, size, b"language", 8):
        return LANGUAGE
    return CODING if is_name(at, size, b"serializeTypeCurrentRPC", 23) else 0


cdef inline bint read_fields(Scan *scan, Head *head) noexcept:
    """Read the fields; False where they are none, too many, or other than plain texts."""
    cdef Py_ssize_t count = 0
    if not take(scan, c"{"):
        return False
    while count < FIELDS_MAX:
        head.names[count].at = take_plain(scan, &head.names[count].size)
        if head.names[count].at is NULL or not take(scan, c":"):
            return False
        head.values[count].at = take_plain(scan, &head.values[count].size)
        if head.values[count].at is NULL:
            return False
        count += 1
        if take(scan, c"}"):
            head.count = count
            return True
        if not take(scan, c","):
            return False
    return False


cdef inline bint read_head(const uint8_t *start, const uint8_t *end, Head *head) noexcept:
    """Read a header of ASCII that has no blank, no escape, nothing twice, and fields; False of any other."""
    cdef Scan scan
    cdef const uint8_t *at
    cdef Py_ssize_t size = 0
    cdef int64_t number
    cdef int seen = 0, name
    scan.at, scan.end, scan.is_good = start, end, True
    if not is_ascii(start, end - start) or not take(&scan, c"{"):
        return False
    while True:
        at = take_plain(&scan, &size)
        name = 0 if at is NULL else head_name(at, size)
        if not name or seen & name or not take(&scan, c":"):
            return False
        seen |= name
        if name == FIELDS:
            if not read_fields(&scan, head):
                return False
        elif name == LANGUAGE or name == CODING:
            if take_plain(&scan, &size) is NULL:
                return False
        else:
            number = take_number(&scan)
            if not scan.is_good:
                return False
            if name == CODE:
                head.code = number
            elif name == FLAG:
                head.flag = number
            elif name == OPAQUE:
                head.opaque = number
        if take(&scan, c"}"):
            return scan.at == end and seen & NEEDED == NEEDED
        if not take(&scan, c","):
            return False
