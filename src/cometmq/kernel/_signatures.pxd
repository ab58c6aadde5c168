# Who must have signed the sends that are taken, as the compiled kernel asks about each.
from libc.stdint cimport uint8_t

from cometmq.kernel._blocks cimport Span
from cometmq.kernel._send_headers cimport Header

cdef enum:
    KEY_SIZE = 40


cdef class KnownSigner:
    cdef readonly set topics
    cdef readonly bytes asked
    cdef bytes user
    cdef bytes latest
    # Of HMAC-SHA1 both states behind the block of the key (RFC 2104).
    cdef uint8_t key[KEY_SIZE]

    cdef int begin(self) except -1
    cdef bint passes(self, Header *header, Span *body) except -1
