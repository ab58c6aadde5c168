"""Messages within the body of a request or response: a flag, four bytes of length, and the message, repeatedly."""

from zlib_ng import zlib_ng

from cometmq.proxy.grpc.calls import CallRefused, GrpcStatus

PREFIX_SIZE = 5
# Largest message of a request (grpcMaxInboundMessageSize of Java's proxy).
MESSAGE_SIZE_MAX = 130 << 20
# Largest message after decompression, lower because a few bytes can become so many: zlib-ng takes about 1 ms for these
# zeros, zlib 50. No official client compresses here.
INFLATED_SIZE_MAX = 16 << 20
_GZIP = 16 + zlib_ng.MAX_WBITS


class MessageReader:
    """Extracts the messages of one request from its body, which arrives in pieces of any size.

    Attributes:
        size: Bytes held of a message that is incomplete.
    """

    __slots__ = ("_buffer", "_encoding", "_length")

    def __init__(self, encoding: str) -> None:
        """`encoding` is that of messages whose flag is set; unless it is "gzip", they are refused."""
        self._encoding = encoding
        self._buffer = bytearray()
        # Of the prefix and the message in the buffer; 0 while the prefix is incomplete.
        self._length = 0

    @property
    def size(self) -> int:
        """Bytes held of a message that is incomplete."""
        return len(self._buffer)

    def read(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete with these bytes.

        Raises:
            CallRefused: A message is too large or its compression unknown or broken.
        """
        messages: list[bytes] = []
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._length:
                return messages
            data = bytes(self._buffer)
            self.clear()
        start = 0
        while len(data) - start >= PREFIX_SIZE:
            end = start + PREFIX_SIZE + int.from_bytes(data[start + 1 : start + PREFIX_SIZE])
            if end - start > MESSAGE_SIZE_MAX + PREFIX_SIZE:
                raise CallRefused(
                    GrpcStatus.RESOURCE_EXHAUSTED,
                    f"the request has {end - start - PREFIX_SIZE} bytes, and at most {MESSAGE_SIZE_MAX} are allowed",
                )
            if end > len(data):
                self._length = end - start
                break
            messages.append(self._message(data[start], data[start + PREFIX_SIZE : end]))
            start = end
        if start < len(data):
            self._buffer += data[start:]
        return messages

    def clear(self) -> None:
        """Drop the bytes of an incomplete message."""
        self._buffer = bytearray()
        self._length = 0

    def _message(self, flag: int, message: bytes) -> bytes:
        if not flag:
            return message
        if flag != 1:
            raise CallRefused(
                GrpcStatus.INTERNAL, f"the flag of a message is {flag}, not 0 or 1"
            )
        if self._encoding != "gzip":
            raise CallRefused(
                GrpcStatus.INTERNAL,
                "a message is compressed, but grpc-encoding does not tell how",
            )
        return inflated(message)


def inflated(message: bytes) -> bytes:
    """Return a message decompressed by gzip; raise CallRefused if it is broken or has more than INFLATED_SIZE_MAX bytes."""
    inflater = zlib_ng.decompressobj(_GZIP)
    try:
        data = inflater.decompress(message, INFLATED_SIZE_MAX)
    except zlib_ng.error as error:  # type: ignore[misc]  # Its stub has no class.
        raise CallRefused(GrpcStatus.INTERNAL, f"a message is no gzip: {error}") from None
    if inflater.eof:
        return data
    if inflater.unconsumed_tail:
        raise CallRefused(
            GrpcStatus.RESOURCE_EXHAUSTED,
            f"a decompressed message has more than {INFLATED_SIZE_MAX} bytes",
        )
    raise CallRefused(GrpcStatus.INTERNAL, "a message is no gzip: its end is missing")


def prefixed(message: bytes) -> bytes:
    """Return an uncompressed message with its prefix of flag and length."""
    return b"\0" + len(message).to_bytes(4) + message
