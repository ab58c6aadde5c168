"""Orderly shutdown of a waiting program on SIGTERM (service manager) and SIGINT (Ctrl-C)."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals(
    ask: Callable[[], None], loop: asyncio.AbstractEventLoop | None = None
) -> Iterator[None]:
    """Call `ask` on SIGTERM and SIGINT while the `with` block runs: on the given loop, otherwise in the signal handler.

    Has no effect outside the main thread, on a loop without signals, or on signals that the program handles or ignores.
    """
    replaced: list[tuple[signal.Signals, Any]] = []
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if not _is_default(handler):
                continue
            with suppress(NotImplementedError):  # A loop on Windows, or under virtual time.
                if loop is not None:
                    loop.add_signal_handler(number, ask)
                else:
                    signal.signal(number, lambda *_: ask())
                replaced.append((number, handler))
    try:
        yield
    finally:
        for number, handler in replaced:
            if loop is not None:
                loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _is_default(handler: Any) -> bool:
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    of_runner = handler.func if isinstance(handler, partial) else None
    return isinstance(getattr(of_runner, "__self__", None), asyncio.Runner)
