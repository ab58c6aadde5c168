# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True, auto_pickle=False
"""`declines.KnownSigner`, compiled: whether sends are signed, looked at in the bytes of a connection.

SHA-1 goes on from both states of HMAC behind the block of a user's key, which are made once (RFC 2104).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from cometmq.kernel._blocks cimport Span
from cometmq.kernel._bytes cimport get_u32, put_u32, put_u64
from cometmq.kernel._send_headers cimport Header, letter_at
from cometmq.kernel._sha1 cimport sha1_blocks, sha1_blocks_plain

cdef enum:
    BLOCK_SIZE = 64
    WORDS = 5  # Of a state.
    DIGEST_SIZE = 20
    SIGNATURE_SIZE = 28  # A digest as Base64.
    INNER = 0x36
    OUTER = 0x5C

cdef const uint8_t *_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef uint32_t[WORDS] _BEGIN = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0]


# SHA-1 of bytes that come in pieces.
cdef struct Sha1:
    uint32_t state[WORDS]
    int64_t size  # Of all so far.
    uint8_t block[BLOCK_SIZE]  # Of which as many bytes wait as are no whole block yet.


cdef void _update(Sha1 *sha, const uint8_t *at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t waiting = sha.size % BLOCK_SIZE, part
    sha.size += size
    if waiting:
        part = min(size, BLOCK_SIZE - waiting)
        memcpy(sha.block + waiting, at, part)
        if waiting + part < BLOCK_SIZE:
            return
        sha1_blocks(sha.state, sha.block, 1)
        at += part
        size -= part
    if size >= BLOCK_SIZE:
        sha1_blocks(sha.state, at, size // BLOCK_SIZE)
    memcpy(sha.block, at + size // BLOCK_SIZE * BLOCK_SIZE, size % BLOCK_SIZE)


cdef void _end(Sha1 *sha, uint8_t *digest) noexcept nogil:
    cdef int64_t bits = sha.size * 8
    cdef Py_ssize_t waiting = sha.size % BLOCK_SIZE
    sha.block[waiting] = 0x80
    memset(sha.block + waiting + 1, 0, BLOCK_SIZE - waiting - 1)
    if waiting + 1 > BLOCK_SIZE - 8:
        sha1_blocks(sha.state, sha.block, 1)
        memset(sha.block, 0, BLOCK_SIZE)
    put_u64(sha.block + BLOCK_SIZE - 8, bits)
    sha1_blocks(sha.state, sha.block, 1)
    for waiting in range(WORDS):
        put_u32(digest + 4 * waiting, sha.state[waiting])


cdef inline void _begin(Sha1 *sha, const uint8_t *state, int64_t size) noexcept nogil:
    """Go on with a hash behind bytes that are hashed already, from the state that they made."""
    cdef int index
    for index in range(WORDS):
        sha.state[index] = get_u32(state + 4 * index)
    sha.size = size


def sha1(bytes content not None, bint is_plain=False):
    """The digest of some bytes, for tests: by what runs on every processor where `is_plain`, for whole blocks."""
    cdef Sha1 sha
    cdef uint8_t[DIGEST_SIZE] digest
    memcpy(sha.state, _BEGIN, sizeof(_BEGIN))
    sha.size = 0
    if is_plain:
        sha.size = PyBytes_GET_SIZE(content) // BLOCK_SIZE * BLOCK_SIZE
        sha1_blocks_plain(
            sha.state, <const uint8_t *>PyBytes_AS_STRING(content), sha.size // BLOCK_SIZE
        )
        content = content[sha.size:]
    _update(&sha, <const uint8_t *>PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
    _end(&sha, digest)
    return PyBytes_FromStringAndSize(<const char *>digest, DIGEST_SIZE)


cdef void _make_key(uint8_t *key, bytes secret):
    """The states of HMAC-SHA1 behind the block of a key, inner and outer."""
    cdef uint8_t[BLOCK_SIZE] block
    cdef uint32_t[WORDS] state
    cdef int part, index
    if PyBytes_GET_SIZE(secret) > BLOCK_SIZE:
        secret = sha1(secret)
    for part in range(2):
        memset(block, 0, BLOCK_SIZE)
        memcpy(block, PyBytes_AS_STRING(secret), PyBytes_GET_SIZE(secret))
        for index in range(BLOCK_SIZE):
            block[index] ^= OUTER if part else INNER
        memcpy(state, _BEGIN, sizeof(_BEGIN))
        sha1_blocks(state, block, 1)
        for index in range(WORDS):
            put_u32(key + DIGEST_SIZE * part + 4 * index, state[index])


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


cdef bint _is_signed(Header *header, Span *body, const uint8_t *key) noexcept nogil:
    """Whether a send has the signature of its fields, in the order of their names, and its body."""
    cdef Sha1 sha
    cdef uint8_t[DIGEST_SIZE] digest
    cdef int index = 0, letter
    if header.signature.size != SIGNATURE_SIZE:
        return False
    _begin(&sha, key, BLOCK_SIZE)
    _update(&sha, header.user.at, header.user.size)
    while True:
        letter = letter_at(header.code, index)
        if letter < 0:
            break
        if header.fields[letter].at is not NULL:
            _update(&sha, header.fields[letter].at, header.fields[letter].size)
        index += 1
    _update(&sha, body.at, body.size)
    _end(&sha, digest)
    _begin(&sha, key + DIGEST_SIZE, BLOCK_SIZE)
    _update(&sha, digest, DIGEST_SIZE)
    _end(&sha, digest)
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
        _make_key(self.key, secret)

    cdef int begin(self) except -1:
        """Forget what ended the last taking."""
        self.asked = None
        return 0

    cdef bint passes(self, Header *header, Span *body) except -1:
        """Whether a send is signed by this user, and to a topic to which he may send."""
        cdef Span *topic = &header.fields[c"b" - c"a"]
        cdef bytes name
        if header.is_strange or header.user.at is NULL or header.signature.at is NULL:
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
