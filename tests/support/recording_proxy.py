"""A TCP proxy that keeps every remoting frame that passes, in order, with its direction.

It forwards bytes as they come and cuts its own copy into frames; an answer is paired with its request by
connection and opaque, so that a recorded answer says what it answers.
"""

import asyncio
import contextlib
import json
import struct
from dataclasses import dataclass, field

from tests.support.frames import parts_of

RESPONSE_BIT = 1
ONEWAY_BIT = 2


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it was on the wire."""

    sender: str
    receiver: str
    kind: int  # of its header: 0 JSON, 1 ROCKETMQ
    code: int  # of the request, or of the answer
    answers: int | None  # the code of the request that it answers
    oneway: bool
    bytes: bytes


def head(frame: bytes) -> tuple[int, int, int, int]:
    """Header kind, code, opaque and flag of a frame."""
    kind, header, _ = parts_of(frame)
    if kind == 0:
        values = json.loads(header)
        return kind, values["code"], values["opaque"], values["flag"]
    # | code 2 | language 1 | version 2 | opaque 4 | flag 4 | …  (RocketMQSerializable)
    code, _language, _version, opaque, flag = struct.unpack_from(">hbhii", header)
    return kind, code, opaque, flag


@dataclass
class RecordingProxy:
    """Stands between two programs; `frames` grows while they talk."""

    near: str  # who connects
    far: str  # who is behind
    frames: list[Frame] = field(default_factory=list)
    server: asyncio.Server | None = None

    async def start(self, host: str, port: int, *, target: str) -> None:
        """Listen on `host:port` and pass everything to `target` ("host:port")."""
        far_host, far_port = target.rsplit(":", 1)

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far_reader, far_writer = await asyncio.open_connection(far_host, int(far_port))
            except OSError:
                writer.close()
                return
            open_requests: dict[tuple[str, int], int] = {}
            async with asyncio.TaskGroup() as both:
                both.create_task(self.pass_on(reader, far_writer, self.near, open_requests))
                both.create_task(self.pass_on(far_reader, writer, self.far, open_requests))

        self.server = await asyncio.start_server(accept, host, port)

    async def pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sender: str,
        open_requests: dict[tuple[str, int], int],
    ) -> None:
        """One direction of one connection, until either side closes it."""
        kept = bytearray()
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                kept += data
                self.keep(kept, sender, open_requests)
                await writer.drain()
        writer.close()

    def keep(
        self, kept: bytearray, sender: str, open_requests: dict[tuple[str, int], int]
    ) -> None:
        """Take the whole frames off the front of `kept`."""
        while len(kept) >= 4 and len(kept) >= 4 + struct.unpack_from(">I", kept)[0]:
            size = 4 + struct.unpack_from(">I", kept)[0]
            frame = bytes(kept[:size])
            del kept[:size]
            kind, code, opaque, flag = head(frame)
            receiver = self.far if sender == self.near else self.near
            answers = None
            if flag & RESPONSE_BIT:
                answers = open_requests.pop((receiver, opaque), None)
            elif not flag & ONEWAY_BIT:
                open_requests[sender, opaque] = code
            oneway = bool(flag & ONEWAY_BIT)
            self.frames.append(Frame(sender, receiver, kind, code, answers, oneway, frame))

    async def close(self) -> None:
        """Stop listening; connections end with their programs."""
        if self.server is not None:
            self.server.close()
