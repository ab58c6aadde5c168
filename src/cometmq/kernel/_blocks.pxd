# Blocks of properties: what a plain send may have in one (`columns.look`), and pieces of text by place and size.
from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcmp


cdef struct Span:
    const uint8_t *at  # NULL: there is none.
    Py_ssize_t size


cdef inline bint ends_with(Span *name, const char *word, Py_ssize_t size) noexcept nogil:
    return name.size >= size and memcmp(name.at + name.size - size, word, size) == 0


cdef inline bint has_marks(const uint8_t *block, const uint8_t *end) noexcept nogil:
    """Whether any text names a timer, or says that a message is in several queues."""
    cdef const uint8_t *at = block
    while True:
        at = <const uint8_t *>memchr(at, c"_", end - at)
        if at is NULL:
            return False
        if at - block >= 5:
            if end - at >= 2 and memcmp(at - 5, b"TIMER_D", 7) == 0:
                return True
            if end - at >= 6 and memcmp(at - 5, b"INNER_MULTI", 11) == 0:
                return True
        at += 1


cdef inline bint is_word(Span *key) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(key.size):
        if not (c"0" <= key.at[i] <= c"9" or c"A" <= (key.at[i] & 0xDF) <= c"Z"):
            return False
    return True


cdef inline bint look_at(const uint8_t *block, Py_ssize_t size, Span *key, Span *tag) noexcept nogil:
    """Find unique key and tag of a property block; False where anything in it may be special."""
    cdef const uint8_t *at = block
    cdef const uint8_t *end = block + size
    cdef const uint8_t *piece_end
    cdef const uint8_t *name_end
    cdef Span name, value
    key.at = tag.at = NULL
    if memchr(block, 0, size) is not NULL or has_marks(block, end):
        return False
    while at < end:
        piece_end = <const uint8_t *>memchr(at, 2, end - at)
        if piece_end is NULL:
            return False
        name_end = <const uint8_t *>memchr(at, 1, piece_end - at)
        if name_end is NULL or name_end == at:
            return False
        name.at, name.size = at, name_end - at
        value.at, value.size = name_end + 1, piece_end - name_end - 1
        if value.size == 0 or memchr(value.at, 1, value.size) is not NULL:
            return False
        if ends_with(&name, b"Y", 1):
            if ends_with(&name, b"DELAY", 5):
                return False
            if ends_with(&name, b"UNIQ_KEY", 8):
                if name.size != 8 or key.at is not NULL:
                    return False
                key[0] = value
        elif ends_with(&name, b"TAGS", 4):
            if name.size != 4 or tag.at is not NULL:
                return False
            tag[0] = value
        elif ends_with(&name, b"TRAN_MSG", 8) or ends_with(&name, b"POP_CK", 6):
            return False
        elif ends_with(&name, b"WAIT", 4) and value.at[0] == c"f":
            return False
        at = piece_end + 1
    return key.at is not NULL and is_word(key)
