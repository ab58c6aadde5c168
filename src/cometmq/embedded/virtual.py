"""A nameserver, a broker and their clients under virtual time: days in moments, and the same each time.

    with cometmq.virtual(seed=7) as mq:

        async def remind() -> None:
            async with AsyncProducer(mq.nameserver) as producer:
                await producer.send(Message("reminders", b"tea", deliver=timedelta(hours=1)))

        mq.run(remind())
        mq.sleep("1h")

They are the same as in `AsyncEmbedded`, files included. Time, connections and chance are the loop's own
(net.virtual_loop), so `asyncio.sleep` and every timeout are virtual within `run`, and a listener is called on the
loop: one that blocks would stop the time for all.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from cometmq.embedded.pair import AsyncEmbedded
from cometmq.model.durations import duration_ms
from cometmq.model.errors import SettingsError
from cometmq.net.virtual_loop import START_MS, VirtualLoop

T = TypeVar("T")


class Virtual:
    """A nameserver and a broker on a virtual loop in the calling thread.

    Args:
        data_dir: where the files lie, made if missing and kept afterwards; None: a temporary
            folder that goes when it closes.
        settings: keys and values of a `broker.conf`.
        seed: of everything that is left to chance.
        start_ms: the time at which it begins, ms since 1970.

    Raises:
        SettingsError: a value that cannot be used.
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
        """The address of the nameserver, and the virtual time."""
        return f"<{type(self).__name__} {self.nameserver or 'not started'} {self.now_ms()} ms>"

    @property
    def nameserver(self) -> str:
        """The address for clients, "host:port"; it is reached within `run` only."""
        return self._pair.nameserver

    @property
    def broker(self) -> str:
        """The broker's "host:port"."""
        return self._pair.broker

    @property
    def data_dir(self) -> Path:
        """The directory of the files."""
        return self._pair.data_dir

    def now_ms(self) -> int:
        """The virtual time, ms since 1970."""
        return self._loop.clock.now_ms()

    def start(self) -> None:
        """Start both.

        Raises:
            StoreError: the files cannot be used; another broker has them open, say.
            OSError: the folder cannot be made.
        """
        self.run(self._pair.start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine with everything else there to its end; what it gives.

        Raises:
            LoopDeadlock: it waits for something that nothing will bring.
            SettingsError: another loop runs in this thread.
            BaseException: whatever it raises.
        """
        if asyncio._get_running_loop() is not None:  # noqa: SLF001  Public, with an underscore of old.
            work.close()
            raise SettingsError(
                "virtual time runs a loop of its own, and another one runs in this thread (an `async def` test, a notebook): "
                "call it from a plain function, and give coroutines to its run()"
            )
        return self._runner.run(work)

    def sleep(self, time: str | float) -> None:
        """Let time pass: seconds, or a text as "250ms", "30s", "15m", "1h" or "3d".

        Raises:
            SettingsError: the text is no duration.
        """
        try:
            seconds = duration_ms(time) / 1000 if isinstance(time, str) else time
        except ValueError as error:
            raise SettingsError(str(error)) from None
        self.run(asyncio.sleep(seconds))

    def close(self) -> None:
        """End both; clients that were not closed are cut off."""
        try:
            self.run(self._pair.close())
        finally:
            self._runner.close()

    def __enter__(self) -> Self:
        """Start."""
        try:
            self.start()
        except BaseException:
            self._runner.close()
            self._loop.close()  # A runner that has run nothing does not own it.
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Close."""
        self.close()
