# Frames that have come whole: where header and body of one lie.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cometmq.kernel._blocks cimport Span
from cometmq.kernel._bytes cimport get_u32
from cometmq.kernel._layouts cimport (
    FRAME_HEAD_HEADER_AT,
    FRAME_HEAD_LENGTH_AT,
    FRAME_HEAD_SIZE,
    HEADER_SIZE_MAX,
)


cdef struct Frame:
    int kind  # How its header is written.
    Py_ssize_t header_size
    const uint8_t *header
    Span body
    Py_ssize_t size  # Of all of it.


# The frame that begins at a place with so many bytes behind it; False where it is not whole, or longer than it may be.
cdef inline bint get_frame(
    const uint8_t *at, Py_ssize_t left, Py_ssize_t size_max, Py_ssize_t header_size_max, Frame *frame
) noexcept nogil:
    cdef int64_t length
    cdef uint32_t head
    if left < FRAME_HEAD_SIZE:
        return False
    length = <int32_t>get_u32(at + FRAME_HEAD_LENGTH_AT)
    head = get_u32(at + FRAME_HEAD_HEADER_AT)
    frame.header_size = head & HEADER_SIZE_MAX
    if not 4 <= length <= size_max - 4:
        return False
    if FRAME_HEAD_HEADER_AT + length > left:
        return False
    if frame.header_size > header_size_max or frame.header_size > length - 4:
        return False
    frame.kind = head >> 24
    frame.header = at + FRAME_HEAD_SIZE
    frame.body.at = frame.header + frame.header_size
    frame.body.size = length - 4 - frame.header_size
    frame.size = FRAME_HEAD_HEADER_AT + length
    return True
