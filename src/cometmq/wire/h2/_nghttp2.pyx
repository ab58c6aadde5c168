# cython: language_level=3, boundscheck=False, wraparound=False
"""The part of nghttp2 that a server needs: it parses received frames and builds frames to send.

One session is one connection. nghttp2 checks and builds frames, compresses headers and keeps streams and windows. The
session copies the frames that nghttp2 builds at once, so no output waits in nghttp2. wire.h2.request_fields checks headers
and wire.h2.frame_guard the rates of frames, so nghttp2's own rules and limits for these are off.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy

from cometmq.wire.h2.engine import (
    CONNECTION_WINDOW,
    HEADER_LIST_SIZE_FATAL,
    HEADER_LIST_SIZE_MAX,
    STREAM_WINDOW,
    STREAMS_MAX,
    H2Error,
)
from cometmq.wire.h2.server_engine import TABLE_SIZE


cdef extern from *:
    """
    #include <sys/types.h>
    #include <nghttp2/nghttp2.h>

    /* Not in all releases: those that have such a limit have the function to lift it. */
    extern void nghttp2_option_set_max_settings(nghttp2_option *, size_t) __attribute__((weak));
    extern void nghttp2_option_set_stream_reset_rate_limit(nghttp2_option *, uint64_t, uint64_t) __attribute__((weak));
    extern void nghttp2_option_set_glitch_rate_limit(nghttp2_option *, uint64_t, uint64_t) __attribute__((weak));

    static void lift_limits(nghttp2_option *option) {
        if (nghttp2_option_set_max_settings) {
            nghttp2_option_set_max_settings(option, 4096); /* More than a frame can have. */
        }
        if (nghttp2_option_set_stream_reset_rate_limit) {
            nghttp2_option_set_stream_reset_rate_limit(option, 1 << 30, 1 << 30);
        }
        if (nghttp2_option_set_glitch_rate_limit) {
            nghttp2_option_set_glitch_rate_limit(option, 1 << 30, 1 << 30);
        }
    }
    """
    ctypedef struct nghttp2_session:
        pass
    ctypedef struct nghttp2_session_callbacks:
        pass
    ctypedef struct nghttp2_option:
        pass
    ctypedef struct nghttp2_info:
        const char *version_str
    ctypedef struct nghttp2_nv:
        uint8_t *name
        uint8_t *value
        size_t namelen
        size_t valuelen
        uint8_t flags
    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value
    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags
    ctypedef struct nghttp2_headers:
        int cat
    ctypedef struct nghttp2_rst_stream:
        uint32_t error_code
    ctypedef struct nghttp2_goaway:
        uint32_t error_code
        uint8_t *opaque_data
        size_t opaque_data_len
    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd
        nghttp2_headers headers
        nghttp2_rst_stream rst_stream
        nghttp2_goaway goaway
    ctypedef union nghttp2_data_source:
        void *ptr
    ctypedef ssize_t (*nghttp2_data_source_read_callback)(
        nghttp2_session *, int32_t, uint8_t *, size_t, uint32_t *, nghttp2_data_source *, void *
    ) noexcept
    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_data_source_read_callback read_callback

    int NGHTTP2_HEADERS, NGHTTP2_DATA, NGHTTP2_RST_STREAM, NGHTTP2_SETTINGS, NGHTTP2_GOAWAY, NGHTTP2_WINDOW_UPDATE
    int NGHTTP2_HCAT_REQUEST
    int NGHTTP2_FLAG_NONE, NGHTTP2_FLAG_END_STREAM, NGHTTP2_FLAG_ACK
    int NGHTTP2_NV_FLAG_NO_COPY_NAME, NGHTTP2_NV_FLAG_NO_COPY_VALUE
    int NGHTTP2_DATA_FLAG_EOF
    int NGHTTP2_ERR_CALLBACK_FAILURE, NGHTTP2_ERR_BAD_CLIENT_MAGIC, NGHTTP2_ERR_FLOODED, NGHTTP2_ERR_FLOW_CONTROL
    int NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
    int NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE

    nghttp2_info *nghttp2_version(int)
    const char *nghttp2_strerror(int)
    int nghttp2_option_new(nghttp2_option **)
    void nghttp2_option_set_no_http_messaging(nghttp2_option *, int)
    void nghttp2_option_set_no_closed_streams(nghttp2_option *, int)
    void lift_limits(nghttp2_option *)
    int nghttp2_session_callbacks_new(nghttp2_session_callbacks **)
    void nghttp2_session_callbacks_set_on_begin_headers_callback(
        nghttp2_session_callbacks *,
        int (*)(nghttp2_session *, const nghttp2_frame *, void *) noexcept)
    void nghttp2_session_callbacks_set_on_header_callback(
        nghttp2_session_callbacks *,
        int (*)(nghttp2_session *, const nghttp2_frame *, const uint8_t *, size_t,
                const uint8_t *, size_t, uint8_t, void *) noexcept)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(
        nghttp2_session_callbacks *,
        int (*)(nghttp2_session *, const nghttp2_frame *, void *) noexcept)
    void nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(
        nghttp2_session_callbacks *,
        int (*)(nghttp2_session *, const nghttp2_frame *, int, void *) noexcept)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        nghttp2_session_callbacks *,
        int (*)(nghttp2_session *, uint8_t, int32_t, const uint8_t *, size_t, void *) noexcept)
    void nghttp2_session_callbacks_set_on_frame_send_callback(
        nghttp2_session_callbacks *,
        int (*)(nghttp2_session *, const nghttp2_frame *, void *) noexcept)
    int nghttp2_session_server_new2(
        nghttp2_session **, const nghttp2_session_callbacks *, void *, const nghttp2_option *)
    void nghttp2_session_del(nghttp2_session *)
    ssize_t nghttp2_session_mem_recv(nghttp2_session *, const uint8_t *, size_t)
    ssize_t nghttp2_session_mem_send(nghttp2_session *, const uint8_t **)
    int nghttp2_session_get_stream_remote_close(nghttp2_session *, int32_t)
    int32_t nghttp2_session_get_stream_remote_window_size(nghttp2_session *, int32_t)
    int32_t nghttp2_session_get_remote_window_size(nghttp2_session *)
    int nghttp2_session_set_local_window_size(nghttp2_session *, uint8_t, int32_t, int32_t)
    int nghttp2_submit_settings(nghttp2_session *, uint8_t, const nghttp2_settings_entry *, size_t)
    int32_t nghttp2_submit_headers(
        nghttp2_session *, uint8_t, int32_t, void *, const nghttp2_nv *, size_t, void *)
    int nghttp2_submit_data(nghttp2_session *, uint8_t, int32_t, const nghttp2_data_provider *)
    int nghttp2_submit_rst_stream(nghttp2_session *, uint8_t, int32_t, uint32_t)


VERSION = nghttp2_version(0).version_str.decode()
# Kinds of events that `receive` returns.
REQUEST, TRAILERS, BODY, END, RESET, WINDOW, SETTINGS = range(7)

cdef object _REQUEST = REQUEST, _TRAILERS = TRAILERS, _BODY = BODY, _END = END
cdef object _RESET = RESET, _WINDOW = WINDOW, _SETTINGS = SETTINGS
cdef size_t _SIZE_FATAL = HEADER_LIST_SIZE_FATAL
cdef size_t _FIELD_OVERHEAD = 32
# Above the limit nghttp2 would end the connection instead of the stream; so it gets another limit than the client.
cdef uint32_t _UNLIMITED = 2**31 - 1


cdef class Nghttp2Session:
    """A connection of nghttp2.

    Attributes:
        made: Bytes for the client; the caller sends and clears them.
        fault: Error code and text of the fault that ends the connection; None without one.
        is_told: Whether nghttp2 has put a GOAWAY for the fault into `made`, or the fault needs none.
    """

    cdef nghttp2_session *_session
    cdef readonly bytearray made
    cdef readonly tuple fault
    cdef readonly bint is_told
    cdef list _found
    cdef list _fields
    cdef size_t _size
    cdef bytes _length  # Of the content-length among the fields.
    cdef dict _lengths  # Bytes that requests with a content-length have still to bring, by their streams.
    cdef const unsigned char *_piece
    cdef size_t _left
    cdef bint _is_resetting

    def __cinit__(self):
        """Make the server's settings, and open the window of the connection."""
        self.made = bytearray()
        self._found = []
        self._lengths = {}
        cdef nghttp2_settings_entry[4] settings
        settings[0] = nghttp2_settings_entry(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, TABLE_SIZE)
        settings[1] = nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, _UNLIMITED)
        settings[2] = nghttp2_settings_entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW)
        settings[3] = nghttp2_settings_entry(
            NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_SIZE_MAX
        )
        _check(nghttp2_session_server_new2(&self._session, _callbacks, <void *>self, _option))
        _check(nghttp2_submit_settings(self._session, NGHTTP2_FLAG_NONE, settings, 4))
        self._take()
        at = self.made.index(_UNLIMITED.to_bytes(4))
        self.made[at : at + 4] = STREAMS_MAX.to_bytes(4)
        _check(
            nghttp2_session_set_local_window_size(
                self._session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW
            )
        )
        self._take()

    def __dealloc__(self):
        if self._session is not NULL:
            nghttp2_session_del(self._session)

    def receive(self, bytes data not None):
        """Parse whole frames of the client, and return the resulting events as (kind, stream, value).

        The value is (fields, their size) for REQUEST, fields for TRAILERS, bytes for BODY, and None for other kinds. A
        fault in the frames sets `fault`.
        """
        cdef ssize_t handled = nghttp2_session_mem_recv(
            self._session, <const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
        )
        if handled < 0:
            if handled == NGHTTP2_ERR_BAD_CLIENT_MAGIC:
                self._fail(H2Error.PROTOCOL_ERROR, "it does not speak HTTP/2")
                self.is_told = True
            elif handled == NGHTTP2_ERR_FLOODED:
                self._fail(H2Error.ENHANCE_YOUR_CALM, "it asks for more than it reads")
            else:
                self._fail(H2Error.INTERNAL_ERROR, f"nghttp2: {nghttp2_strerror(handled).decode()}")
        else:
            self._take()
        found, self._found = self._found, []
        return found

    cdef void _fail(self, object code, object text):
        if self.fault is None:
            self.fault = code, text

    cdef int _take(self) except -1:
        """Append all frames that nghttp2 has built to `made`."""
        cdef const uint8_t *data
        cdef ssize_t size
        cdef Py_ssize_t before
        while True:
            size = nghttp2_session_mem_send(self._session, &data)
            if size <= 0:
                return _check(size)
            before = PyByteArray_GET_SIZE(self.made)
            PyByteArray_Resize(self.made, before + size)
            memcpy(PyByteArray_AS_STRING(self.made) + before, data, size)

    def send_head(self, int32_t stream, fields, bint is_last):
        """Make HEADERS of a response, or of its trailers; `is_last` ends the response."""
        cdef Py_ssize_t count = len(fields), at = 0
        cdef bytes name, value
        cdef nghttp2_nv *values = <nghttp2_nv *>PyMem_Malloc(count * sizeof(nghttp2_nv))
        if values is NULL:
            raise MemoryError
        try:
            for name, value in fields:
                values[at].name = <uint8_t *>PyBytes_AS_STRING(name)
                values[at].namelen = PyBytes_GET_SIZE(name)
                values[at].value = <uint8_t *>PyBytes_AS_STRING(value)
                values[at].valuelen = PyBytes_GET_SIZE(value)
                values[at].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE
                at += 1
            _check(
                nghttp2_submit_headers(
                    self._session, NGHTTP2_FLAG_END_STREAM if is_last else NGHTTP2_FLAG_NONE,
                    stream, NULL, values, count, NULL,
                )
            )
            self._take()
        finally:
            PyMem_Free(values)

    def send_body(self, int32_t stream, const unsigned char[::1] piece not None):
        """Make DATA of a piece that is not empty and that the windows have room for."""
        cdef nghttp2_data_provider provider
        provider.source.ptr = NULL
        provider.read_callback = _read_piece
        self._piece = &piece[0]
        self._left = piece.shape[0]
        try:
            _check(nghttp2_submit_data(self._session, NGHTTP2_FLAG_NONE, stream, &provider))
            self._take()
            if self._left:
                raise RuntimeError("nghttp2 has sent less than the windows have room for")
        finally:  # nghttp2 may ask for the rest when the piece is gone.
            self._piece = NULL
            self._left = 0

    def send_reset(self, int32_t stream, uint32_t code):
        """Make RST_STREAM, unless the stream is over."""
        if self._lengths:
            self._lengths.pop(stream, None)
        if nghttp2_session_get_stream_remote_close(self._session, stream) < 0:
            return
        self._is_resetting = True
        try:
            _check(nghttp2_submit_rst_stream(self._session, NGHTTP2_FLAG_NONE, stream, code))
            self._take()
        finally:
            self._is_resetting = False

    def window(self, int32_t stream):
        """Return how many bytes the windows of a stream and of the connection have room for."""
        return min(
            nghttp2_session_get_stream_remote_window_size(self._session, stream),
            nghttp2_session_get_remote_window_size(self._session),
        )

    def connection_window(self):
        """Return how many bytes the window of the connection has room for."""
        return nghttp2_session_get_remote_window_size(self._session)

    cdef int _keep_field(self, int32_t stream, bytes name, bytes value) except -1:
        self._fields.append((name, value))
        self._size += PyBytes_GET_SIZE(name) + PyBytes_GET_SIZE(value) + _FIELD_OVERHEAD
        if self._size > _SIZE_FATAL:
            self._fail(H2Error.ENHANCE_YOUR_CALM, f"its headers have more than {_SIZE_FATAL} bytes")
            return NGHTTP2_ERR_CALLBACK_FAILURE
        if self._length is None and name == b"content-length":
            self._length = value
        return 0

    cdef int _refuse_window(self, int32_t stream) except -1:
        """End the connection because of a window that is too large; nghttp2 does so from release 1.67 on, and resets the stream before."""
        if stream:
            self.made += b"\0\0\4\3\0" + stream.to_bytes(4) + H2Error.FLOW_CONTROL_ERROR.to_bytes(4)
        self._fail(H2Error.FLOW_CONTROL_ERROR, f"the window of stream {stream} is too large")
        return 0

    cdef int _expect(self, int32_t stream) except -1:
        """Note how many bytes a request has told that it will bring."""
        try:
            self._lengths[stream] = int(self._length, 10)
        except ValueError:
            self._fail(H2Error.PROTOCOL_ERROR, f"the content-length of stream {stream} is no number")
            return NGHTTP2_ERR_CALLBACK_FAILURE
        self._length = None
        return 0

    cdef int _count(self, int32_t stream, Py_ssize_t size, bint is_last) except -1:
        """Count bytes of a request with a content-length, which they must meet."""
        left = self._lengths.get(stream)
        if left is None:
            return 0
        left -= size
        if left < 0 or (is_last and left):
            self._fail(H2Error.PROTOCOL_ERROR, f"the body of stream {stream} has another length than its content-length")
            return NGHTTP2_ERR_CALLBACK_FAILURE
        self._lengths[stream] = left
        return 0

    cdef int _frame_came(self, const nghttp2_frame *frame) except -1:
        cdef int32_t stream = frame.hd.stream_id
        cdef int kind = frame.hd.type
        cdef bint is_last = frame.hd.flags & NGHTTP2_FLAG_END_STREAM
        cdef list found = self._found
        if kind == NGHTTP2_HEADERS:
            if frame.headers.cat == NGHTTP2_HCAT_REQUEST:
                found.append((_REQUEST, stream, (self._fields, self._size)))
            else:
                found.append((_TRAILERS, stream, self._fields))
            self._fields = None
            if is_last:
                found.append((_END, stream, None))
            if self._length is not None:
                return self._expect(stream)
        elif kind == NGHTTP2_DATA:
            if is_last:
                found.append((_END, stream, None))
                if self._lengths:
                    return self._count(stream, 0, True)
        elif kind == NGHTTP2_RST_STREAM:
            found.append((_RESET, stream, None))
            if self._lengths:
                self._lengths.pop(stream, None)
        elif kind == NGHTTP2_WINDOW_UPDATE:
            if stream:
                found.append((_WINDOW, stream, None))
        elif kind == NGHTTP2_SETTINGS and not frame.hd.flags & NGHTTP2_FLAG_ACK:
            found.append((_SETTINGS, 0, None))
        return 0

    cdef void _frame_made(self, const nghttp2_frame *frame):
        """Notice frames that nghttp2 sends by itself: GOAWAY for a fault, and RST_STREAM in earlier releases for a broken window."""
        if frame.hd.type == NGHTTP2_GOAWAY:
            text = PyBytes_FromStringAndSize(<char *>frame.goaway.opaque_data, frame.goaway.opaque_data_len)
            self._fail(frame.goaway.error_code, text.decode("ascii", "replace"))
            self.is_told = True
        elif frame.hd.type == NGHTTP2_RST_STREAM and not self._is_resetting:
            self._fail(frame.rst_stream.error_code, f"it broke the rules of stream {frame.hd.stream_id}")


cdef int _check(ssize_t result) except -1:
    if result < 0:
        raise RuntimeError(f"nghttp2: {nghttp2_strerror(result).decode()}")
    return 0


# Callbacks of nghttp2; an exception in one ends the connection.

cdef int _on_begin_headers(
    nghttp2_session *_, const nghttp2_frame *frame, void *session
) noexcept:
    (<Nghttp2Session>session)._fields = []
    (<Nghttp2Session>session)._size = 0
    return 0


cdef int _on_header(
    nghttp2_session *_, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
    const uint8_t *value, size_t value_size, uint8_t flags, void *session,
) noexcept:
    try:
        return (<Nghttp2Session>session)._keep_field(
            frame.hd.stream_id,
            PyBytes_FromStringAndSize(<const char *>name, name_size),
            PyBytes_FromStringAndSize(<const char *>value, value_size),
        )
    except BaseException:
        return NGHTTP2_ERR_CALLBACK_FAILURE


cdef int _on_frame_recv(nghttp2_session *_, const nghttp2_frame *frame, void *session) noexcept:
    try:
        return (<Nghttp2Session>session)._frame_came(frame)
    except BaseException:
        return NGHTTP2_ERR_CALLBACK_FAILURE


cdef int _on_invalid_frame_recv(
    nghttp2_session *_, const nghttp2_frame *frame, int error, void *session
) noexcept:
    if error == NGHTTP2_ERR_FLOW_CONTROL:
        try:
            (<Nghttp2Session>session)._refuse_window(frame.hd.stream_id)
        except BaseException:
            pass
        return NGHTTP2_ERR_CALLBACK_FAILURE
    return 0


cdef int _on_data_chunk_recv(
    nghttp2_session *_, uint8_t flags, int32_t stream, const uint8_t *data, size_t size, void *session
) noexcept:
    cdef Nghttp2Session it = <Nghttp2Session>session
    try:
        it._found.append((_BODY, stream, PyBytes_FromStringAndSize(<const char *>data, size)))
        return it._count(stream, size, False) if it._lengths else 0
    except BaseException:
        return NGHTTP2_ERR_CALLBACK_FAILURE


cdef int _on_frame_send(nghttp2_session *_, const nghttp2_frame *frame, void *session) noexcept:
    (<Nghttp2Session>session)._frame_made(frame)
    return 0


cdef ssize_t _read_piece(
    nghttp2_session *_, int32_t stream, uint8_t *buffer, size_t size_max, uint32_t *flags,
    nghttp2_data_source *source, void *session,
) noexcept:
    cdef Nghttp2Session it = <Nghttp2Session>session
    cdef size_t size = min(size_max, it._left)
    if size:
        memcpy(buffer, it._piece, size)
    it._piece += size
    it._left -= size
    if not it._left:
        flags[0] |= NGHTTP2_DATA_FLAG_EOF
    return size


cdef nghttp2_session_callbacks *_callbacks
cdef nghttp2_option *_option
_check(nghttp2_session_callbacks_new(&_callbacks))
nghttp2_session_callbacks_set_on_begin_headers_callback(_callbacks, _on_begin_headers)
nghttp2_session_callbacks_set_on_header_callback(_callbacks, _on_header)
nghttp2_session_callbacks_set_on_frame_recv_callback(_callbacks, _on_frame_recv)
nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(_callbacks, _on_invalid_frame_recv)
nghttp2_session_callbacks_set_on_data_chunk_recv_callback(_callbacks, _on_data_chunk_recv)
nghttp2_session_callbacks_set_on_frame_send_callback(_callbacks, _on_frame_send)
_check(nghttp2_option_new(&_option))
nghttp2_option_set_no_http_messaging(_option, 1)
nghttp2_option_set_no_closed_streams(_option, 1)
lift_limits(_option)
