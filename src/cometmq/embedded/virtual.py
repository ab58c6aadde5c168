"""A nameserver, a broker and their clients under virtual time, where days pass in moments and runs are repeatable.

    with cometmq.virtual(seed=7) as mq:

        async def remind() -> None:
            async with AsyncProducer(mq.nameserver) as producer:
                await producer.send(Message("reminders", b"tea", deliver=timedelta(hours=1)))

        mq.run(remind())
        mq.sleep("1h")

Nameserver and broker are those of `AsyncEmbedded`, including the files. Time, connections and most random numbers are
those of the loop (net.virtual_loop). `asyncio.sleep` and timeouts in `run` are therefore virtual. Listeners run on the
loop, so a blocking one would stop time for all.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from cometmq.client.results import SendResult
from cometmq.embedded.pair import AsyncEmbedded, PairHolder
from cometmq.model.durations import duration_ms
from cometmq.model.errors import SettingsError
from cometmq.model.message import Message
from cometmq.net.virtual_loop import START_MS, VirtualLoop

T = TypeVar("T")


class Virtual(PairHolder):
    """A nameserver and a broker on an event loop under virtual time in the calling thread; a context manager.

    Args:
        data_dir: Directory of the files, created if missing and kept; None: a temporary one, deleted on close.
        settings: Keys and values of a `broker.conf`, except namesrvAddr, listenPort and the paths of the store.
        seed: Seed of the random numbers of the loop.
        start_ms: Virtual time at the start, ms since 1970.

    Raises:
        SettingsError: A setting cannot be used.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        settings: Mapping[str, str | int | bool] | None = None,
        seed: int = 0,
        start_ms: int = START_MS,
    ) -> None:
        self._pair = AsyncEmbedded(data_dir, settings=settings)
        self._loop = VirtualLoop(seed=seed, start_ms=start_ms, has_leaps=True)
        self._runner = asyncio.Runner(loop_factory=lambda: self._loop)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.nameserver or 'not started'} {self.now_ms()} ms>"

    def now_ms(self) -> int:
        """Return the virtual time, ms since 1970."""
        return self._loop.clock.now_ms()

    def start(self) -> None:
        """Start the nameserver and the broker. While they are running: AssertionError.

        Raises:
            StoreError, CodecError: The files cannot be used, for example because another broker has them open.
            OSError: The directory or a file cannot be created or read.
            SettingsError: Another loop runs in this thread, or a setting or a file that it names cannot be used.
        """
        self.run(self._pair.start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, along with nameserver and broker, and return its result.

        Raises:
            LoopDeadlock: The coroutine waits for an event that cannot occur.
            SettingsError: Another loop runs in this thread. After `close`: RuntimeError.
            BaseException: The exception of the coroutine.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this virtual cluster was closed; make a new one")
        if asyncio._get_running_loop() is not None:  # noqa: SLF001  Public despite its underscore.
            work.close()
            raise SettingsError(
                "virtual time needs its own event loop, but one is already running in this thread (in an `async def` "
                "test or a notebook): call it from a normal function, and pass coroutines to its run()"
            )
        return self._runner.run(work)

    def put(self, *messages: Message) -> list[SendResult]:
        """Store messages in the broker without a client, checked like a producer's; return their results in order.

        Raises BrokerRefused if a message is refused; earlier ones, and others put with it, may be stored.
        AssertionError before the start, RuntimeError after the close, SettingsError if another loop runs in this thread.
        """
        return self.run(self._pair.put(*messages))

    def sleep(self, time: str | float) -> None:
        """Let virtual time pass: a number of seconds, or a text such as "250ms", "30s" or "1h"; other text: SettingsError."""
        try:
            seconds = duration_ms(time) / 1000 if isinstance(time, str) else time
        except ValueError as error:
            raise SettingsError(str(error)) from None
        self.run(asyncio.sleep(seconds))

    def close(self) -> None:
        """Stop the broker, the nameserver and the loop, delete a temporary directory, and disconnect remaining clients.

        A second call does nothing.
        """
        if self._loop.is_closed():
            return
        try:
            self.run(self._pair.close())
        finally:
            self._runner.close()

    def __enter__(self) -> Self:
        assert not self.nameserver, "it is started once; leave out start() or `with`"
        try:
            self.start()
        except BaseException:
            self._runner.close()
            self._loop.close()  # A runner that has run nothing does not close it.
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


virtual = Virtual  # Written as `with cometmq.virtual(seed=7) as mq:`.
