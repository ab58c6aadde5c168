"""Suppresses tracebacks of connections that Spark has closed: a query that stops, or has the rows that it wants, is no error.

Spark closes the connections of its Pythons then, whatever they write. Each of them may print a traceback of a BrokenPipeError
into the console of a good run. The report of a failed task or plan to Spark is not touched.
"""

import sys
import traceback
from types import TracebackType
from typing import Any

_CLOSED = (BrokenPipeError, ConnectionResetError)


def hush_broken_pipes() -> None:
    """If Spark started this process, let `sys.excepthook` and `traceback.print_exc` ignore broken and reset connections."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is None or not spec.name.startswith("pyspark."):
        return
    hook, print_exc = sys.excepthook, traceback.print_exc

    def hook_of_others(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not issubclass(kind, _CLOSED):
            hook(kind, error, trace)

    def print_others(*given: Any, **named: Any) -> None:
        if not isinstance(sys.exception(), _CLOSED):
            print_exc(*given, **named)

    # The planner of a stream dies of the error; the worker of a task prints it.
    sys.excepthook = hook_of_others
    traceback.print_exc = print_others
