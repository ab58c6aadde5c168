# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True, auto_pickle=False
"""`declines.KnownSigner`, compiled: whether sends are signed, looked at in the bytes of a connection.

HMAC goes on from both hashes behind the block of a user's key, which are made once (RFC 2104). What hashes is OpenSSL; where
its functions are not found, no send is known to be signed.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from cometmq.kernel._blocks cimport Span
from cometmq.kernel._send_headers cimport Header, letter_at

from cometmq.kernel.openssl import sha1_addresses

cdef enum:
    BLOCK_SIZE = 64
    DIGEST_SIZE = 20
    SIGNATURE_SIZE = 28  # A digest as Base64.
    INNER = 0x36
    OUTER = 0x5C

cdef const uint8_t *_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

ctypedef int (*Begin)(Sha1 *) noexcept nogil
ctypedef int (*Update)(Sha1 *, const uint8_t *, size_t) noexcept nogil
ctypedef int (*End)(uint8_t *, Sha1 *) noexcept nogil

cdef Begin _begin = NULL
cdef Update _update = NULL
cdef End _end = NULL


cdef void _find():
    """Take the functions of OpenSSL."""
    global _begin, _update, _end
    found = sha1_addresses()
    if found is not None:
        begin, update, end = found
        _begin, _update, _end = <Begin><size_t>begin, <Update><size_t>update, <End><size_t>end


_find()


cdef void _make_key(Sha1 *key, bytes secret):
    """The hashes of HMAC-SHA1 behind the block of a key, inner and outer."""
    cdef uint8_t[BLOCK_SIZE] block, short
    cdef Sha1 sha
    cdef Py_ssize_t size = PyBytes_GET_SIZE(secret)
    cdef int part, index
    memset(short, 0, BLOCK_SIZE)
    if size > BLOCK_SIZE:
        _begin(&sha)
        _update(&sha, <const uint8_t *>PyBytes_AS_STRING(secret), size)
        _end(short, &sha)
    else:
        memcpy(short, PyBytes_AS_STRING(secret), size)
    for part in range(2):
        for index in range(BLOCK_SIZE):
            block[index] = short[index] ^ (OUTER if part else INNER)
        _begin(&key[part])
        _update(&key[part], block, BLOCK_SIZE)


cdef inline bint _is_of(uint8_t *digest, const uint8_t *text) noexcept nogil:
    """Whether a text is a digest as Base64; it takes as long whichever bytes differ."""
    cdef uint32_t three
    cdef int index, differs = 0
    for index in range(DIGEST_SIZE // 3 + 1):
        three = digest[3 * index] << 16 | digest[3 * index + 1] << 8
        if index < DIGEST_SIZE // 3:
            three |= digest[3 * index + 2]
            differs |= text[4 * index + 3] ^ _BASE64[three & 63]
        else:
            differs |= text[4 * index + 3] ^ c"="
        differs |= text[4 * index] ^ _BASE64[three >> 18]
        differs |= text[4 * index + 1] ^ _BASE64[three >> 12 & 63]
        differs |= text[4 * index + 2] ^ _BASE64[three >> 6 & 63]
    return differs == 0


cdef bint _is_signed(Header *header, Span *body, Sha1 *key) noexcept nogil:
    """Whether a send has the signature of its fields, in the order of their names, and its body."""
    cdef Sha1 sha = key[0]
    cdef uint8_t[DIGEST_SIZE] digest
    cdef int index = 0, letter
    if header.signature.size != SIGNATURE_SIZE:
        return False
    _update(&sha, header.user.at, header.user.size)
    while True:
        letter = letter_at(header.code, index)
        if letter < 0:
            break
        if header.fields[letter].at is not NULL:
            _update(&sha, header.fields[letter].at, header.fields[letter].size)
        index += 1
    _update(&sha, body.at, body.size)
    _end(digest, &sha)
    sha = key[1]
    _update(&sha, digest, DIGEST_SIZE)
    _end(digest, &sha)
    return _is_of(digest, header.signature.at)


cdef inline bint _is(Span *text, bytes expected) noexcept:
    if text.size != PyBytes_GET_SIZE(expected):
        return False
    return memcmp(text.at, PyBytes_AS_STRING(expected), text.size) == 0


cdef class KnownSigner:
    """See `cometmq.kernel.declines.KnownSigner`."""

    def __init__(self, bytes user not None, bytes secret not None):
        self.topics = set()
        self.user, self.asked, self.latest = user, None, None
        if _begin is not NULL:
            _make_key(self.key, secret)

    cdef int begin(self) except -1:
        """Forget what ended the last taking."""
        self.asked = None
        return 0

    cdef bint passes(self, Header *header, Span *body) except -1:
        """Whether a send is signed by this user, and to a topic to which he may send."""
        cdef Span *topic = &header.fields[c"b" - c"a"]
        cdef bytes name
        if _begin is NULL or header.is_strange or header.user.at is NULL or header.signature.at is NULL:
            return False
        if topic.at is NULL or not _is(&header.user, self.user):
            return False
        if not _is_signed(header, body, self.key):
            return False
        if self.latest is not None and _is(topic, self.latest):  # Mostly.
            return True
        name = PyBytes_FromStringAndSize(<const char *>topic.at, topic.size)
        if name not in self.topics:
            self.asked = name
            return False
        self.latest = name
        return True
