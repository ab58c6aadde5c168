# The header of a send as it stands in its bytes: which texts it has, and where.
from libc.stdint cimport int32_t, int64_t, uint8_t

from cometmq.kernel._blocks cimport Span

cdef enum:
    LETTERS = 26
    # The requests that send; the fields of the first are words, which have the letters of the others here.
    SEND = 10
    SEND_V2 = 310
    SEND_BATCH = 320


# What the fields of a send say that are the same in each send of a client.
cdef struct Fixed:
    bint is_plain  # Whether each is there, and is as clients write it for a plain send.
    int32_t flag
    int32_t tried  # How often it was consumed before.
    bint is_half  # Whether it has the bit of half messages, and no other.


cdef struct Header:
    int64_t code
    int64_t flag
    int64_t opaque
    # By their letters; good until the next header is read.
    Span *fields
    # Who signs, and how.
    Span user
    Span signature
    # Whether it has a field of another name, or one of these twice.
    bint is_strange
    # What its other fields say; a pattern has them, too.
    Fixed fixed
    # Where the properties are written without the escapes of JSON: as many bytes as the header has, and eight.
    uint8_t *room
    # Whether they are known to have no character beyond ASCII.
    bint is_ascii


# The letter, from 0 on, of the field that is so many in the order of their names; -1 where there are no more.
cdef int letter_at(int64_t code, int index) noexcept nogil


# Read one; False for any that is no send, and one that is not written as official clients write it. The header begins
# with its room set; `fields` are those of `own`, or of a pattern.
cdef bint read_header(
    int kind, const uint8_t *start, const uint8_t *end, Header *header, Span *own
)
