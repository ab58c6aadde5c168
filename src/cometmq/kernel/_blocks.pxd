# Blocks of properties: what a plain send may have in one, and pieces of text by place and size.
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from cometmq.kernel._text cimport first_byte, get_decimal, word_at


# As many properties are looked at.
cdef enum:
    NAMES_MAX = 64
    GROUP_SIZE_MAX = 255  # Bytes of a key and of a producer group, of which transactions keep so many characters.


cdef struct Span:
    const uint8_t *at  # NULL: there is none.
    Py_ssize_t size


cdef inline bint equals(Span *text, const char *word, Py_ssize_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, word, size) == 0


cdef inline bint number_of(Span *text, int bits, int64_t *value) noexcept nogil:
    """Read a number that JSON would write so; return False if there is none, or it needs more bits."""
    cdef bint is_good = False
    if text.at is NULL:
        return False
    value[0] = get_decimal(text.at, text.size, &is_good)
    return is_good and -(<int64_t>1 << bits) <= value[0] < <int64_t>1 << bits


cdef inline bint ends_with(Span *name, const char *word, Py_ssize_t size) noexcept nogil:
    return name.size >= size and memcmp(name.at + name.size - size, word, size) == 0


cdef inline bint begins_with(Span *name, const char *word, Py_ssize_t size) noexcept nogil:
    return name.size >= size and memcmp(name.at, word, size) == 0


cdef inline const uint8_t *next_mark(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """The next byte that stands between names and values, 1 and 2, or is 0; the end where there is none."""
    cdef uint64_t word, marks
    while end - at >= 8:
        word = word_at(at)
        # Less three only such a byte gets its highest bit; one behind it may, too, so the first counts.
        marks = word - 0x0303030303030303ULL & ~word & 0x8080808080808080ULL
        if marks:
            return at + first_byte(marks)
        at += 8
    while at < end and at[0] > 2:
        at += 1
    return at


cdef inline bint is_word(Span *key) noexcept nogil:
    """Whether a text is letters and digits."""
    cdef const uint8_t *at = key.at
    cdef const uint8_t *end = at + key.size
    cdef uint64_t word, small, good
    while end - at >= 8:
        word = word_at(at)
        small = word | 0x2020202020202020ULL
        # Of bytes of ASCII: a sum has the highest bit where the byte is not below the first, or above the last.
        good = (word + 0x5050505050505050ULL) & ~(word + 0x4646464646464646ULL)
        good |= (small + 0x1F1F1F1F1F1F1F1FULL) & ~(small + 0x0505050505050505ULL)
        if (good & ~word & 0x8080808080808080ULL) != 0x8080808080808080ULL:
            return False
        at += 8
    while at < end:
        if not (c"0" <= at[0] <= c"9" or c"A" <= (at[0] & 0xDF) <= c"Z"):
            return False
        at += 1
    return True


cdef inline bint is_among(Span *name, Span *names, int count) noexcept nogil:
    """Whether a name is one of those before it."""
    cdef int index
    for index in range(count):
        if equals(name, <const char *>names[index].at, names[index].size):
            return True
    return False


# What has a message wait in a topic of the broker.
cdef struct Wait:
    Span delay  # The delay level.
    bint is_half  # Whether it opens a transaction.
    Span time  # The delivery time,
    int unit_ms  # its unit,
    bint is_delay  # and whether it counts from now.


cdef inline bint is_time(Span *name, Wait *wait) noexcept nogil:
    """Return whether a property is a delivery time; notes which kind."""
    wait.unit_ms, wait.is_delay = 1, True
    if name.size == 15 and memcmp(name.at, b"TIMER_DELAY_SEC", 15) == 0:
        wait.unit_ms = 1000
        return True
    if name.size == 14 and memcmp(name.at, b"TIMER_DELAY_MS", 14) == 0:
        return True
    wait.is_delay = False
    return name.size == 16 and memcmp(name.at, b"TIMER_DELIVER_MS", 16) == 0


cdef inline bint may_wait(Wait *wait, Span *key, bint is_placed, Py_ssize_t group_size) noexcept nogil:
    """Return whether the fast path may store a message that waits; `is_placed`: it has a property that brokers write for those."""
    if wait.is_half:
        return (
            wait.delay.at is NULL and wait.time.at is NULL and not is_placed
            and key.size <= GROUP_SIZE_MAX and group_size <= GROUP_SIZE_MAX
        )
    if wait.time.at is not NULL:
        return wait.delay.at is NULL and not is_placed
    return wait.delay.at is NULL or not is_placed


cdef inline bint look_at(
    const uint8_t *block, Py_ssize_t size, Span *key, Span *tag, Span *words, Wait *wait
) noexcept nogil:
    """Find unique key, tag, keys and why it waits in a property block; False where anything else in it may be special.

    A block may be empty, and have none of these. A property that comes twice is special: the slow path keeps one of them.
    """
    cdef Span names[NAMES_MAX]
    cdef int count = 0
    cdef uint64_t seen = 0, mark  # Bits of the names so far; names with different bits differ.
    cdef const uint8_t *at = block
    cdef const uint8_t *end = block + size
    cdef const uint8_t *piece_end
    cdef const uint8_t *name_end
    cdef Span name, value
    cdef bint is_placed = False
    cdef Py_ssize_t group_size = 0
    key.at = tag.at = words.at = wait.delay.at = wait.time.at = NULL
    key.size = tag.size = words.size = wait.delay.size = wait.time.size = 0
    wait.is_half = False
    while at < end:
        name_end = next_mark(at, end)
        if name_end == end or name_end[0] != 1 or name_end == at:
            return False
        name.at, name.size = at, name_end - at
        mark = 1ULL << (name.size * 5 + at[0] & 63)
        if count == NAMES_MAX or seen & mark and is_among(&name, names, count):
            return False
        seen |= mark
        names[count] = name
        count += 1
        piece_end = next_mark(name_end + 1, end)
        if piece_end == end or piece_end[0] != 2:
            return False
        value.at, value.size = name_end + 1, piece_end - name_end - 1
        if value.size == 0:
            return False
        if name.size == 4:
            if equals(&name, b"TAGS", 4):
                tag[0] = value
            elif equals(&name, b"KEYS", 4):
                words[0] = value
            elif equals(&name, b"WAIT", 4) and value.at[0] == c"f":
                return False
        elif equals(&name, b"UNIQ_KEY", 8):
            key[0] = value
        elif equals(&name, b"DELAY", 5):
            wait.delay = value
        elif (
            ends_with(&name, b"UNIQ_KEY", 8) or ends_with(&name, b"DELAY", 5) or ends_with(&name, b"TAGS", 4)
            or ends_with(&name, b"POP_CK", 6) or ends_with(&name, b"WAIT", 4) and value.at[0] == c"f"
            or begins_with(&name, b"INNER_MULTI", 11)  # It is in several queues.
        ):
            return False
        elif begins_with(&name, b"TIMER_D", 7):
            if wait.time.at is not NULL or not is_time(&name, wait):
                return False
            wait.time = value
        elif ends_with(&name, b"TRAN_MSG", 8):
            if name.size != 8 or value.size != 4 or memcmp(value.at, b"true", 4) != 0:
                return False
            wait.is_half = True
        elif ends_with(&name, b"PGROUP", 6):
            group_size = value.size
        elif name.at[0] == c"R" or name.at[0] == c"T" or name.at[0] == c"_":
            # The broker writes these for a message that waits.
            is_placed |= (
                ends_with(&name, b"REAL_TOPIC", 10) or ends_with(&name, b"REAL_QID", 8)
                or ends_with(&name, b"__transactionId__", 17) or ends_with(&name, b"CHECK_TIMES", 11)
                or ends_with(&name, b"PREPARED_QUEUE_OFFSET", 21)
                or begins_with(&name, b"TIMER_", 6)
            )
        at = piece_end + 1
    return (key.at is NULL or is_word(key)) and may_wait(wait, key, is_placed, group_size)
