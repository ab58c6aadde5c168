"""A nameserver and a broker in a thread with its own loop, for tests and programs that have no loop.

with Embedded() as cluster:
with Producer(cluster.nameserver) as producer: ...
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Self

from cometmq.embedded.pair import AsyncEmbedded
from cometmq.net.loop import run


class Embedded:
    """A nameserver and a broker in a background thread of this process.

    Args:
        data_dir: where the files lie, made if missing and kept afterwards; None: a temporary
            folder that goes when it closes.
        settings: keys and values of a `broker.conf`, e.g. {"flushDiskType": "SYNC_FLUSH"}.
        nameserver_port: 0 takes a free one.
        broker_port: 0 takes a free one.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        settings: Mapping[str, str | int | bool] | None = None,
        nameserver_port: int = 0,
        broker_port: int = 0,
    ) -> None:
        self._pair = AsyncEmbedded(
            data_dir,
            settings=settings,
            nameserver_port=nameserver_port,
            broker_port=broker_port,
        )
        self._thread: threading.Thread | None = None
        self._ask_end: Callable[[], object] = lambda: None

    def __repr__(self) -> str:
        """The address of the nameserver, once it is started."""
        return repr(self._pair).replace(type(self._pair).__name__, type(self).__name__)

    @property
    def nameserver(self) -> str:
        """The address for clients, "host:port"."""
        return self._pair.nameserver

    @property
    def broker(self) -> str:
        """The broker's "host:port"."""
        return self._pair.broker

    @property
    def data_dir(self) -> Path:
        """The directory of the files."""
        return self._pair.data_dir

    def start(self) -> None:
        """Start both; clients can send when it returns. Once only.

        Raises:
            SettingsError: a value that cannot be used.
            NetError: a port is taken.
            StoreError: the files cannot be used.
            OSError: the folder cannot be made.
        """
        assert self._thread is None, "an Embedded is started once"
        started: Future[None] = Future()
        # A daemon: a program that forgets to close it must still be able to end.
        self._thread = threading.Thread(
            target=lambda: run(self._live(started)), name="cometmq-embedded", daemon=True
        )
        self._thread.start()
        started.result()

    async def _live(self, started: "Future[None]") -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._ask_end = lambda: loop.call_soon_threadsafe(end.set)
        try:
            async with self._pair:
                started.set_result(None)
                await end.wait()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    def close(self) -> None:
        """End both and wait until they have ended; closing twice is allowed."""
        if self._thread is not None and self._thread.is_alive():
            self._ask_end()
            self._thread.join()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Close."""
        self.close()
