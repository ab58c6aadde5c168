# Who must have signed the sends that are taken, as the compiled kernel asks about each.
from libc.stdint cimport uint64_t

from cometmq.kernel._blocks cimport Span
from cometmq.kernel._send_headers cimport Header

cdef enum:
    SHA1_WORDS = 16  # OpenSSL's SHA_CTX has 96 bytes (openssl/sha.h).


# A hash that OpenSSL has begun; nobody else looks into it.
cdef struct Sha1:
    uint64_t[SHA1_WORDS] words


cdef class KnownSigner:
    cdef readonly set topics
    cdef readonly bytes asked
    cdef bytes user
    cdef bytes latest
    # Of HMAC-SHA1 both hashes behind the block of the key (RFC 2104).
    cdef Sha1[2] key

    cdef int begin(self) except -1
    cdef bint passes(self, Header *header, Span *body) except -1
