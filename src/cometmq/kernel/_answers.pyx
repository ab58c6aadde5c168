# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `sends.encode_answers` and of the functions of `requests`: frames that leave together.

Answers with texts that JSON escapes, and those beyond 64 bits, are made by the Python side.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cometmq.kernel._bytes cimport put_bytes, put_u32
from cometmq.kernel._layouts cimport FRAME_HEAD_SIZE
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, decimal_size, json_stops, put_decimal, word_at
from cometmq.kernel.requests import encode_answer_head as _encode_any_head
from cometmq.kernel.sends import (
    END as END_TEXT,
    KEY as KEY_TEXT,
    MIDDLE as MIDDLE_TEXT,
    OFFSET as OFFSET_TEXT,
    encode_answers as _encode_any_answers,
)

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)

cdef const char *HEX_DIGITS = b"0123456789ABCDEF"
cdef bytes _offset = OFFSET_TEXT.encode(), _key = KEY_TEXT.encode()
cdef bytes _middle = MIDDLE_TEXT.encode(), _end = END_TEXT.encode()
cdef const char *OFFSET = _offset
cdef const char *KEY = _key
cdef const char *MIDDLE = _middle
cdef const char *END = _end
cdef Py_ssize_t OFFSET_SIZE = len(_offset), KEY_SIZE = len(_key)
cdef Py_ssize_t MIDDLE_SIZE = len(_middle), END_SIZE = len(_end)
cdef const char *FLAGS = MIDDLE + 2  # Without the end of a text and of the fields.
cdef Py_ssize_t FLAGS_SIZE = MIDDLE_SIZE - 2
cdef bytes _code = b'{"code":', _fields = b',"extFields":{', _remark = b',"remark":"'
cdef const char *CODE = _code
cdef const char *FIELDS = _fields
cdef const char *REMARK = _remark
cdef Py_ssize_t CODE_SIZE = len(_code), FIELDS_SIZE = len(_fields), REMARK_SIZE = len(_remark)
cdef int64_t MAX_U32 = 0xFFFFFFFF


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
    """The bytes of an answer's header; 0 for a oneway request, which nobody answers."""
    if one[1] is None:
        return 0
    return (
        len(<str>one[1]) + 16 + OFFSET_SIZE + decimal_size(<int64_t>result[0]) + KEY_SIZE
        + len(<str>one[2]) + MIDDLE_SIZE + decimal_size(<int64_t>one[0]) + END_SIZE
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
        total += FRAME_HEAD_SIZE + size if size else 0
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


cdef bint _is_plain(object text) except -1:
    """Return whether an object is a str of ASCII that JSON does not escape."""
    cdef Py_ssize_t size
    cdef const uint8_t *at
    cdef const uint8_t *end
    if type(text) is not str or not PyUnicode_IS_ASCII(text):
        return False
    at = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &size)
    end = at + size
    while end - at >= 8:
        if json_stops(word_at(at)):
            return False
        at += 8
    while at < end:
        if at[0] == c'"' or at[0] == c"\\" or at[0] < c" ":
            return False
        at += 1
    return True


cdef Py_ssize_t _fields_size(dict fields) except -2:
    """Return the bytes of `,"extFields":{...}`: 0 for no fields, -1 if a name or value is not plain."""
    cdef Py_ssize_t total = 0
    cdef object name, value
    for name, value in fields.items():
        if not (_is_plain(name) and _is_plain(value)):
            return -1
        total += _text_size(name) + _text_size(value) + 6
    return total + FIELDS_SIZE if total else 0


cdef uint8_t *_put_fields(uint8_t *at, dict fields) except NULL:
    cdef object name, value
    at = put_bytes(at, FIELDS, FIELDS_SIZE)
    for name, value in fields.items():
        at[0] = c'"'
        at = put_bytes(_put_text(at + 1, name), b'":"', 3)
        at = put_bytes(_put_text(at, value), b'",', 2)
    at[-1] = c"}"
    return at


def encode_answer_head(code, opaque, remark, dict fields not None, Py_ssize_t body_size):
    """See `cometmq.kernel.requests.encode_answer_head`."""
    try:
        return _answer_head(code, opaque, remark, fields, body_size)
    except OverflowError:
        return _encode_any_head(code, opaque, remark, fields, body_size)


cdef bytes _answer_head(int64_t code, int64_t opaque, object remark, dict fields, Py_ssize_t body_size):
    cdef Py_ssize_t fields_size = _fields_size(fields), size
    cdef bytes room
    cdef uint8_t *at
    if fields_size < 0 or not (remark is None or _is_plain(remark)):
        return _encode_any_head(code, opaque, remark, fields, body_size)
    size = CODE_SIZE + decimal_size(code) + fields_size + FLAGS_SIZE + decimal_size(opaque) + END_SIZE
    if remark is not None:
        size += REMARK_SIZE + _text_size(remark) + 1
    if 4 + size + body_size > MAX_U32:
        return _encode_any_head(code, opaque, remark, fields, body_size)
    room = PyBytes_FromStringAndSize(NULL, FRAME_HEAD_SIZE + size)
    at = put_u32(<uint8_t *>PyBytes_AS_STRING(room), <uint32_t>(4 + size + body_size))
    at = put_bytes(put_u32(at, <uint32_t>size), CODE, CODE_SIZE)
    at = put_decimal(at, code)
    if fields_size:
        at = _put_fields(at, fields)
    at = put_decimal(put_bytes(at, FLAGS, FLAGS_SIZE), opaque)
    if remark is not None:
        at = _put_text(put_bytes(at, REMARK, REMARK_SIZE), remark)
        at[0] = c'"'
        at += 1
    put_bytes(at, END, END_SIZE)
    return room


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
        _text_size(item[0]) + decimal_size(<int64_t>item[1]) + _text_size(item[2])
        + _text_size(item[3]) + decimal_size(<int64_t>item[4]) + _text_size(item[5])
    )


def encode_requests(list items not None):
    """See `cometmq.kernel.requests.encode_requests`."""
    cdef Py_ssize_t total = 0, size, body_size
    cdef object item
    cdef tuple send
    cdef bytes room
    cdef uint8_t *at
    if len(items) == 1 and type(items[0]) is bytes:
        return items[0]
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
