"""A nameserver and a broker in a thread with its own loop, for tests and programs without a loop.

For example `with Embedded() as cluster, Producer(cluster.nameserver) as producer: ...`.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Self

from cometmq.client.results import SendResult
from cometmq.embedded.pair import AsyncEmbedded, PairHolder
from cometmq.model.message import Message
from cometmq.net.loop import run


class Embedded(PairHolder):
    """A nameserver and a broker in a background thread, from `start` to `close` or in a `with` block.

    Args:
        data_dir: Directory of the files, created if missing and kept; None: a temporary one, deleted on close.
        settings: Keys and values of a `broker.conf`, except namesrvAddr, listenPort and the paths of the store.
        nameserver_port: Port of the nameserver; 0 selects a free one.
        broker_port: Port of the broker; 0 selects a free one.
        grpc_port: Port for gRPC clients (needs the extra `grpc`); 0 selects a free one; None: that of `settings`, or none.

    Raises:
        SettingsError: A setting cannot be used.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        settings: Mapping[str, str | int | bool] | None = None,
        nameserver_port: int = 0,
        broker_port: int = 0,
        grpc_port: int | None = None,
    ) -> None:
        self._pair = AsyncEmbedded(
            data_dir,
            settings=settings,
            nameserver_port=nameserver_port,
            broker_port=broker_port,
            grpc_port=grpc_port,
        )
        self._thread: threading.Thread | None = None
        self._ask_end: Callable[[], object] = lambda: None

    def __repr__(self) -> str:
        return repr(self._pair).replace(type(self._pair).__name__, type(self).__name__)

    @property
    def grpc_address(self) -> str:
        """Address for gRPC clients, "host:port"; empty before the start, and if there is none."""
        return self._pair.grpc_address

    def start(self) -> None:
        """Start the nameserver and the broker; both accept clients when this returns. A second call: AssertionError.

        Raises:
            SettingsError: A setting, or a file that it names, cannot be used.
            NetError: A port cannot be opened, for example because it is in use.
            StoreError, CodecError: The files cannot be used, for example because another broker has them open.
            OSError: The directory or a file cannot be created or read.
        """
        assert self._thread is None, "an Embedded is started once"
        started: Future[None] = Future()
        # A daemon thread, so that a program that forgets to close it can still exit.
        self._thread = threading.Thread(
            target=lambda: run(self._live(started)), name="cometmq-embedded", daemon=True
        )
        self._thread.start()
        started.result()

    def put(self, *messages: Message) -> list[SendResult]:
        """Store messages in the broker without a client, checked like a producer's; return their results in order.

        Raises BrokerRefused if a message is refused; earlier ones, and others put with it, may be stored.
        AssertionError before the start or after the close.
        """
        is_up = self._thread is not None and self._thread.is_alive()
        assert is_up, "messages are put between start() and close()"
        return asyncio.run_coroutine_threadsafe(self._pair.put(*messages), self._loop).result()

    async def _live(self, started: "Future[None]") -> None:
        end = asyncio.Event()
        self._loop = loop = asyncio.get_running_loop()
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
        """Stop broker and nameserver, wait for their end, and delete a temporary directory; may be called twice."""
        if self._thread is not None and self._thread.is_alive():
            self._ask_end()
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
