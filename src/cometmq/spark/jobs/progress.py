"""Progress of a Spark job's run on stderr: rows, rows/s, MB/s and the remaining time."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import TextIO

from cometmq.spark.jobs.options import ProgressStyle

_SHOW_EVERY_S = {"auto": 0.2, "json": 1.0}
_MEGABYTE = 1_000_000
_ERASE_LINE = "\r\x1b[K"


@dataclass
class ProgressCounts:
    """Finished and total rows, bytes and tasks.

    Attributes:
        rows: Rows done; an estimate if only the finished tasks are known.
        size: Bytes done; 0 if unknown.
        rows_total: Total rows; None if unknown or without end.
        tasks: Finished tasks of the watched Spark jobs.
        tasks_total: Tasks of these jobs that are known so far.
        behind: Unread messages of a stream of topics; None if unknown, and for a batch or another stream.
    """

    rows: int = 0
    size: int = 0
    rows_total: int | None = None
    tasks: int = 0
    tasks_total: int = 0
    behind: int | None = None


class RunProgress:
    """Progress display of a run.

    Args:
        style: "auto" (one line, only on a terminal), "json" (at most a line of JSON per second, and a last one) or "none".
        name: Name of the job.
        stream: Output; stderr by default.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        style: ProgressStyle,
        name: str,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.counts = ProgressCounts()
        self._stream = sys.stderr if stream is None else stream
        is_shown = style == "json" or (style == "auto" and self._stream.isatty())
        self._style: ProgressStyle = style if is_shown else "none"
        self._name = name
        self._clock = clock
        self._began = clock()
        self._shown_at = -1.0
        # Updates come from a watching thread, a listener's thread and the job itself.
        self._lock = Lock()
        self._size_total = 0

    def expect(self, rows: int | None, size: int = 0) -> None:
        """Set the expected total of rows (None if unknown) and of bytes (0 if unknown)."""
        self.counts.rows_total = rows
        self._size_total = size

    def at_share(self, done: int, total: int) -> None:
        """Set the numbers of finished and all tasks, raise rows and bytes to this share of the totals, and show progress."""
        counts = self.counts
        counts.tasks, counts.tasks_total = done, total
        if total:
            counts.rows = max(counts.rows, (counts.rows_total or 0) * done // total)
            counts.size = max(counts.size, self._size_total * done // total)
        self.show()

    def at(self, rows: int, size: int = 0, *, behind: int | None = None) -> None:
        """Set the rows done and, if given, the unread messages, raise the bytes done to `size`, and show the progress."""
        counts = self.counts
        counts.rows, counts.size = rows, max(size, counts.size)
        counts.behind = counts.behind if behind is None else behind
        self.show()

    def show(self, *, is_last: bool = False) -> None:
        """Print the progress, if it is shown, at most every 0.2 s (terminal) or 1 s (JSON); with `is_last` at once."""
        with self._lock:
            now = self._clock()
            if self._style == "none" or (
                not is_last and now - self._shown_at < _SHOW_EVERY_S[self._style]
            ):
                return
            self._shown_at = now
            if self._style == "json":
                self._stream.write(json.dumps(self.state()) + "\n")
            else:
                self._stream.write(_ERASE_LINE + self._line() + ("\r\n" if is_last else ""))
            self._stream.flush()

    def state(self) -> dict[str, object]:
        """Return the progress as a dict for JSON: job, rows, rows/s, MB/s, seconds left (None if unknown), tasks and lag."""
        counts = self.counts
        seconds = max(self._clock() - self._began, 1e-3)
        left = None
        done, total = counts.rows, counts.rows_total
        if total is None and self._size_total:
            done, total = counts.size, self._size_total
        elif total is None and counts.behind is not None:
            total = counts.rows + counts.behind
        if total is not None and done:
            left = round(max(total - done, 0) * seconds / done, 1)
        return {
            "job": self._name,
            "rows": counts.rows,
            "rowsTotal": counts.rows_total,
            "rowsPerSecond": round(counts.rows / seconds),
            "mbPerSecond": round(counts.size / _MEGABYTE / seconds, 2),
            "secondsLeft": left,
            "tasks": counts.tasks,
            "tasksTotal": counts.tasks_total,
            "behind": counts.behind,
        }

    def _line(self) -> str:
        state, counts = self.state(), self.counts
        total = "" if counts.rows_total is None else f" of {counts.rows_total:,}"
        parts = []
        if counts.rows or counts.rows_total is not None:
            parts.append(f"{counts.rows:,}{total} rows")
            parts.append(f"{state['rowsPerSecond']:,} rows/s")
        if counts.size:
            parts.append(f"{state['mbPerSecond']} MB/s")
        if counts.behind is not None:
            parts.append(f"{counts.behind:,} behind")
        if state["secondsLeft"] is not None:
            parts.append(f"{state['secondsLeft']:.0f} s left")
        return f"{self._name}: {', '.join(parts) or 'begins'}"
