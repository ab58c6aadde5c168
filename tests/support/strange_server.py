"""A nameserver and broker in one, on raw sockets, that answers what no good one does: all by hand, byte by byte.

Each request code has a script: it is given the request and gives the bytes that are written. What has no script is
answered as a plain broker would, with little.
"""

import asyncio
import contextlib
import json
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Self

from tests.support.frames import json_frame, parts_of

ANSWER = 1
TOPIC, GROUP = "Strange", "strangers"
PULL, QUERY_OFFSET, BEAT, MEMBERS, ROUTE = 11, 14, 34, 38, 105
SEND, POP, MAX_OFFSET = 310, 200050, 30


class Asked(NamedTuple):
    """A request: its fields, its body, its number."""

    code: int
    fields: dict[str, str]
    body: bytes
    opaque: int

    def answer(
        self,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        code: int = 0,
        remark: str | None = None,
    ) -> bytes:
        """The bytes of an answer."""
        header = json.dumps(
            {
                "code": code, "flag": ANSWER, "language": "JAVA", "opaque": self.opaque,
                "version": 479, "serializeTypeCurrentRPC": "JSON", "extFields": fields or {},
                **({} if remark is None else {"remark": remark}),
            }
        ).encode()  # fmt: skip
        return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


Script = Callable[[Asked], bytes]


class StrangeServer:
    """One server on a free port, on a thread of its own.

    Attributes:
        scripts: by request code; a test sets its own, `reset` takes them away.
        counts: requests so far, by code; 0 counts connections.
    """

    def __init__(self) -> None:
        self.scripts: dict[int, Script] = {}
        self.counts: Counter[int] = Counter()
        self.is_reading = True
        self.is_closing_each = False
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._members: set[str] = set()
        self._ready = threading.Event()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    def reset(self) -> None:
        """Be plain again."""
        self.scripts.clear()
        self.counts.clear()
        self._members.clear()
        self.is_reading, self.is_closing_each = True, False
        self.on_loop(self._drop_all())

    def on_loop(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something on the server's loop, and wait for its end."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _drop_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0, limit=1 << 25)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._end.wait()
        await self._drop_all()
        server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.counts[0] += 1
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not self.is_closing_each:
                size = struct.unpack(">I", await reader.readexactly(4))[0]
                frame = struct.pack(">I", size) + await reader.readexactly(size)
                if not self.is_reading:
                    await self._end.wait()
                kind, head, body = parts_of(frame)
                assert kind == 0, "our client sends JSON"
                header = json.loads(head)
                if header["flag"] & ANSWER:
                    continue
                fields = header.get("extFields") or {}
                asked = Asked(header["code"], fields, body, header["opaque"])
                self.counts[asked.code] += 1
                writer.write(self.scripts.get(asked.code, self.plain)(asked))
        self._writers.discard(writer)
        writer.transport.abort()

    def plain(self, asked: Asked) -> bytes:
        """What a plain nameserver or broker answers."""
        match asked.code:
            case 105:
                return asked.answer(body=json.dumps(self.route(2)).encode())
            case 34:
                self._members.add(json.loads(asked.body)["clientID"])
                return asked.answer()
            case 38:
                members = {"consumerIdList": sorted(self._members)}
                return asked.answer(body=json.dumps(members).encode())
            case 14:
                return asked.answer(code=22, remark="none")
            case 310:
                told = {"msgId": "0" * 32, "queueId": asked.fields["e"], "queueOffset": "7"}
                return asked.answer(told)
            case 11:
                return b""  # A pull that finds nothing is held.
            case 30 | 31:
                return asked.answer({"offset": "0"})
            case _:
                return asked.answer()

    def route(self, queues: int, broker: str = "broker") -> dict[str, Any]:
        """A route with this server as its broker."""
        return {
            "queueDatas": [
                {"brokerName": broker, "readQueueNums": queues, "writeQueueNums": queues,
                 "perm": 6, "topicSysFlag": 0}
            ],
            "brokerDatas": [
                {"cluster": "c", "brokerName": broker, "brokerAddrs": {"0": self.address}}
            ],
            "filterServerTable": {},
        }  # fmt: skip

    def request(self, code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
        """The bytes of a request to a client that nobody answers."""
        return json_frame(code, fields, body, flag=2)


def pulled(asked: Asked, next_offset: object, body: bytes = b"", code: int = 0) -> bytes:
    """The answer to a pull."""
    fields = {"nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "1000000",
              "suggestWhichBrokerId": "0"}  # fmt: skip
    return asked.answer(fields, body, code=code)
