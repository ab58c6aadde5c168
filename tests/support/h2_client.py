"""A client of HTTP/2 by hand, on the loop of a test: it sends the frames it is given and keeps those it gets."""

import asyncio
from collections.abc import Callable

from tests.support.h2_frames import (
    ACK,
    GOAWAY,
    HELLO,
    PING,
    Frame,
    Response,
    body_frames,
    frame,
    frames_in,
    message,
    request,
    request_fields,
    responses,
)


class H2Client(asyncio.Protocol):
    """A connection to a server of HTTP/2.

    Attributes:
        answers_pings: Whether it shows a sign of life when asked.
        reads: Number of reads so far.
        is_lost: Whether the connection is gone.
        frames: All frames of the server so far.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.answers_pings = True
        self.reads = 0
        self.is_lost = False
        self.frames: list[Frame] = []
        self._received = b""
        self._came = asyncio.Event()
        self._next_stream = 1

    @classmethod
    async def connect(cls, port: int, hello: bytes = HELLO) -> "H2Client":
        loop = asyncio.get_running_loop()
        client = cls()
        client.transport, _ = await loop.create_connection(lambda: client, "127.0.0.1", port)
        client.say(hello)
        return client

    def data_received(self, data: bytes) -> None:
        self.reads += 1
        self._received += data
        new = frames_in(self._received)
        self._received = self._received[sum(9 + len(each.payload) for each in new) :]
        self.frames += new
        for each in new:
            if each.kind == PING and not each.flags & ACK and self.answers_pings:
                self.say(frame(PING, each.payload, flags=ACK))
        self._came.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_lost = True
        self._came.set()

    def say(self, *pieces: bytes) -> None:
        self.transport.write(b"".join(pieces))

    def call(
        self, text: bytes | None = b"", path: bytes = b"/t.T/Echo", *more: tuple[bytes, bytes]
    ) -> int:
        """Begin a call with one message, or with none and no end if `text` is None; return its stream."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self.say(request(stream, request_fields(path, *more)))
        if text is not None:
            self.say(body_frames(stream, message(text), is_last=True))
        return stream

    @property
    def responses(self) -> dict[int, Response]:
        return responses(self.frames)

    @property
    def goaways(self) -> list[int]:
        """The error codes of GOAWAY frames."""
        return [each.code for each in self.frames if each.kind == GOAWAY]

    async def until(
        self, is_so: "Callable[[H2Client], object]", seconds: float = 200.0
    ) -> None:
        """Wait until something holds; fail after so many seconds."""
        async with asyncio.timeout(seconds):
            while not is_so(self):
                self._came.clear()
                await self._came.wait()

    async def answer(self, stream: int, seconds: float = 200.0) -> Response:
        """Wait for the end of a response, and return it."""

        def is_over(client: H2Client) -> bool:
            response = client.responses.get(stream)
            return client.is_lost or (
                response is not None and (response.status >= 0 or response.reset >= 0)
            )

        await self.until(is_over, seconds)
        return self.responses[stream]
