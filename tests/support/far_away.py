"""A TCP proxy that makes a program far away: what it says comes some ms later, and round trips are counted.

A request belongs to the round trip behind the last one of which an answer had come when it was sent, so
the count is what nobody can save who waits for one answer before the next request.
"""

import asyncio
import contextlib
import threading
from typing import Self

from tests.support.recording_proxy import head

RESPONSE_BIT = 1


class FarAway:
    """Stands in front of a server; its loop is a thread of its own.

    Args:
        host: where it listens, on a port that is `target`'s.
        target: ("host", port) of the server.
        delay_ms: how much later an answer comes.
    """

    def __init__(self, host: str, target: tuple[str, int], *, delay_ms: float) -> None:
        self.round_trips = 0
        self.requests = 0
        self._host, self._target, self._delay = host, target, delay_ms / 1000
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        work = asyncio.start_server(self._accept, self._host, self._target[1])
        self._server = asyncio.run_coroutine_threadsafe(work, self._loop).result()
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def reset(self) -> None:
        """Count from 0 on."""
        self.round_trips = self.requests = 0

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        trips: dict[int, int] = {}  # Of a request by its opaque.

        def asked(frame: bytes) -> None:
            _, _, opaque, flag = head(frame)
            if not flag & RESPONSE_BIT:
                self.requests += 1
                trips[opaque] = self.round_trips + 1

        def answered(frame: bytes) -> None:
            _, _, opaque, flag = head(frame)
            if flag & RESPONSE_BIT:
                self.round_trips = max(self.round_trips, trips.pop(opaque, 0))

        try:
            # A task of asyncio's streams that ends as cancelled is reported as a fault of its callback.
            with contextlib.suppress(asyncio.CancelledError):
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_on(reader, far_writer, asked, 0))
                    both.create_task(self._pass_on(far_reader, writer, answered, self._delay))
        except* OSError:
            pass  # One side is gone.
        finally:
            writer.close()
            far_writer.close()

    async def _pass_on(self, reader, writer, seen, delay) -> None:
        kept = bytearray()
        while data := await reader.read(1 << 20):
            kept += data
            frames = []
            while len(kept) >= 4 and len(kept) >= (size := 4 + int.from_bytes(kept[:4])):
                frames.append(bytes(kept[:size]))
                del kept[:size]
            self._loop.call_later(delay, self._send, writer, data, seen, frames)
        self._loop.call_later(delay, writer.close)

    def _send(self, writer, data, seen, frames) -> None:
        for frame in frames:
            seen(frame)
        if not writer.is_closing():
            writer.write(data)
