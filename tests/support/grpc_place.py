"""A gRPC server on real sockets, in a thread with the loop of programs."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from cometmq.net.clock import SystemClock
from cometmq.net.connections import Bounds
from cometmq.net.loop import run
from cometmq.net.tls import ServerTls
from cometmq.proxy.grpc.server import GrpcLimits, GrpcServer
from tests.support.grpc_services import TestedServices

START_SECONDS_MAX = 30


class GrpcPlace:
    """A server with the services of tests, from `with` to its end.

    Attributes:
        port: Its port on 127.0.0.1.
        services: What its services saw.
    """

    def __init__(
        self,
        *,
        limits: GrpcLimits | None = None,
        make_tls: Callable[[], ServerTls] | None = None,
    ) -> None:
        self.services = TestedServices()
        self.port = 0
        self._limits = limits or GrpcLimits()
        self._make_tls = make_tls
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: run(self._main()))

    def __enter__(self) -> "GrpcPlace":
        self._thread.start()
        assert self._started.wait(START_SECONDS_MAX)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _at: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the server, and wait for it."""
        self.stop_soon()
        self._thread.join()

    def stop_soon(self) -> None:
        """Begin to close the server, if it has not been closed."""
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            self.loop.call_soon_threadsafe(self._stop.set)

    def ask(self, function: Callable[[], Any]) -> Any:
        """Return what a function returns on the server's loop."""

        async def called() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(30)

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = GrpcServer(
            self.services.table, SystemClock(), limits=self._limits, bounds=Bounds(),
            tls=None if self._make_tls is None else self._make_tls(),
        )  # fmt: skip
        self.server.on_drain.append(self.services.end_waits)
        self.port = await self.server.start("127.0.0.1", 0)
        self._started.set()
        await self._stop.wait()
        await self.server.close()
