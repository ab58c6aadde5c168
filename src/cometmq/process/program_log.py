"""The log of a program: one line per message, of limited length, with repeats counted.

Messages contain names, ids and expressions of peers. To keep peers from forging lines, colouring the terminal or
filling the disk, unprintable characters are escaped and long texts are cut in the middle. Of each kind of line (logger,
level and template) only the first few are written per time window, and one more reports the number of omitted ones and
the last of them; lines that their caller marks as UNCOUNTED are always written. Tracebacks keep their lines, indented
so that none looks like a line of the log. Objects usually appear in words, not as Python's `repr`.
"""

import dataclasses
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, NamedTuple, TextIO

from cometmq.model.text import as_given, cut, printable

LINE_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

# Maximum characters of an argument, of a whole message, and of a traceback.
ARGUMENT_MAX = 400
MESSAGE_MAX = 2_000
TRACEBACK_MAX = 6_000
_PLACEHOLDER = re.compile(r"%[-+ #0]*[\d.]*[a-zA-Z]")
# Lines of a kind per time window. The window is one second and doubles while the kind continues.
LINES_MAX = 10
WHILE_SECONDS = 1.0
WHILE_SECONDS_MAX = 8.0
# Number of kinds counted separately; any others at the same time share one count.
KINDS_MAX = 256
_TEMPLATE_MAX = 80
# As `extra` of a log call: the line is written whatever its number is, for lines that no peer can cause in any number.
UNCOUNTED: Mapping[str, object] = {"is_counted": False}
# Items of a collection in a log line.
_ITEMS_MAX = 20


class LogLevel(Enum):
    """The lowest level of the lines that a program writes (setting `logLevel`)."""

    debug = logging.DEBUG
    info = logging.INFO
    warning = logging.WARNING
    warn = logging.WARNING  # noqa: PIE796  The name of the level in Java.
    error = logging.ERROR


class LineKind(NamedTuple):
    """The traits by which log lines are counted together.

    Attributes:
        template: Start of the message template or, if the template has no words, of the message.
        place: For an error, its type and where it was raised.
    """

    logger: str
    level: int
    template: str
    place: str = ""


_OTHERS = LineKind(__name__, logging.WARNING, "lines of many kinds")


class OneLineFormatter(logging.Formatter):
    """Formats a log message as one line, followed by an indented traceback of limited length if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a log record, with its traceback on further lines; the record is not modified."""
        values = {**record.__dict__, "msg": _message(record), "args": None}
        if values["exc_info"]:
            # Discard the cached text of another formatter, which is not indented.
            values["exc_text"] = None
        return super().format(logging.makeLogRecord(values))

    def formatException(  # noqa: N802  Named by logging.
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        """Return a traceback with indented lines."""
        lines = cut(super().formatException(ei), TRACEBACK_MAX).split("\n")
        return "\n".join(f"    {printable(line)}" for line in lines)


def _message(record: logging.LogRecord) -> str:
    args = record.args
    if isinstance(args, Mapping) and "%(" not in str(record.msg):
        args = (args,)  # The only argument, which logging has unpacked.
    if isinstance(args, tuple):
        args = tuple(map(_in_words, args))
    message = str(record.msg) % args if args else str(record.msg)
    return printable(cut(message, MESSAGE_MAX))


def has_words(value: object) -> bool:
    """Return whether `str` of a value is readable text, not Python's `repr`; False for OSErrors and bytes."""
    return isinstance(value, str | int | float | None) or (
        type(value).__str__ is not object.__str__
        and not isinstance(value, OSError | bytes | bytearray)
    )


def _in_words(value: Any) -> Any:
    """Return an argument of a log line as a number, or as something whose text is no `repr`; a long text is cut."""
    if isinstance(value, str):
        return cut(value, ARGUMENT_MAX)
    if has_words(value):
        return value
    if isinstance(value, OSError):
        # Its own text has an error number in brackets and quotes around the path.
        path = "" if value.filename is None else f": {value.filename}"
        return cut(f"{value.strerror}{path}" if value.strerror else str(value), ARGUMENT_MAX)
    if isinstance(value, bytes | bytearray | memoryview):
        return cut(bytes(value[: 2 * ARGUMENT_MAX]).decode("utf-8", "replace"), ARGUMENT_MAX)
    if isinstance(value, Mapping):
        pairs = (f"{_in_words(key)}: {_in_words(each)}" for key, each in value.items())
        return _list_of(pairs, len(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Fields that `repr` leaves out are secrets.
        shown = (each for each in dataclasses.fields(value) if each.repr)
        value = [getattr(value, each.name) for each in shown]
    if isinstance(value, Collection):
        return _list_of((str(_in_words(each)) for each in value), len(value))
    return as_given(value, ARGUMENT_MAX)


def _list_of(texts: Iterable[str], count: int) -> str:
    shown = [text for text, _ in zip(texts, range(_ITEMS_MAX), strict=False)]
    more = f", and {count - _ITEMS_MAX} more" if count > _ITEMS_MAX else ""
    return cut(", ".join(shown), ARGUMENT_MAX) + more


@dataclass(slots=True)
class _Count:
    """The number of log lines of one kind in its time window.

    Attributes:
        ends: Monotonic time of the window's end, seconds.
        seconds: Length of the window.
        count: Number of lines, including omitted ones.
        last: Text of the last omitted line.
    """

    ends: float
    seconds: float
    count: int = 0
    last: str = ""

    @property
    def left_out(self) -> int:
        return max(self.count - LINES_MAX, 0)


class CountingHandler(logging.StreamHandler[TextIO]):
    """Writes the first lines of each kind per time window, and at its end the number of omitted ones."""

    def __init__(
        self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream or sys.stderr)
        self._clock = clock
        self._counts: dict[LineKind, _Count] = {}
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record, or only count it if LINES_MAX of its kind were written in this window; see `UNCOUNTED`."""
        if not getattr(record, "is_counted", True):
            super().emit(record)
            return
        now = self._clock()
        kind = _kind(record)
        count = self._counts.get(kind)
        if count is None or now >= count.ends:
            self._look(now)
            kind = kind if kind in self._counts or len(self._counts) < KINDS_MAX else _OTHERS
            count = self._counts.setdefault(kind, _Count(now + WHILE_SECONDS, WHILE_SECONDS))
        count.count += 1
        if count.count <= LINES_MAX:
            super().emit(record)
            return
        count.last = _message(record)  # Not the record, whose arguments may be large.
        if self._timer is None:
            self._set_timer(count.ends - now)

    def _set_timer(self, seconds: float) -> None:
        """Start a timer thread that ends expired windows after `seconds`, even if nothing more is logged."""
        self._timer = threading.Timer(max(seconds, 0.0), self._on_timer)
        self._timer.daemon = True
        self._timer.start()

    def _on_timer(self) -> None:
        with self.lock or threading.Lock():
            self._timer = None
            self._look(self._clock())
            ends = [count.ends for count in self._counts.values() if count.left_out]
            if ends:
                self._set_timer(min(ends) - self._clock())

    def _look(self, now: float) -> None:
        """End expired windows: report omitted lines, and forget kinds without any."""
        for kind, count in [item for item in self._counts.items() if now >= item[1].ends]:
            if not count.left_out:
                del self._counts[kind]
                continue
            self._tell(kind, count)
            seconds = min(count.seconds * 2, WHILE_SECONDS_MAX)
            self._counts[kind] = _Count(now + seconds, seconds)

    def _tell(self, kind: LineKind, count: _Count) -> None:
        last = f"{kind.template}, the last: {count.last}" if kind == _OTHERS else count.last
        super().emit(
            logging.makeLogRecord(
                {
                    "name": kind.logger,
                    "levelno": kind.level,
                    "levelname": logging.getLevelName(kind.level),
                    "msg": "%d more like this within %d s: %s",
                    "args": (count.left_out, round(count.seconds), last),
                }
            )
        )

    def close(self) -> None:
        """Report remaining omitted lines; logging calls this when the process ends."""
        with self.lock or threading.Lock():
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            for kind, count in self._counts.items():
                if count.left_out:
                    self._tell(kind, count)
            self._counts.clear()
        super().close()


def _kind(record: logging.LogRecord) -> LineKind:
    """Return the kind of a log line: logger, level, template, and for errors the place, to count bugs separately.

    Templates without words, such as "%s", count as one kind only for texts with the same first 400 characters.
    """
    template = str(record.msg)[:_TEMPLATE_MAX].partition("\n")[0]
    if not any(map(str.isalpha, _PLACEHOLDER.sub("", template))):
        template = _message(record)[:ARGUMENT_MAX]
    place = ""
    if isinstance(record.exc_info, tuple) and record.exc_info[0] is not None:
        inmost = record.exc_info[2]
        while inmost is not None and inmost.tb_next is not None:
            inmost = inmost.tb_next
        where = f"{inmost.tb_frame.f_code.co_filename}:{inmost.tb_lineno}" if inmost else ""
        place = f"{record.exc_info[0].__name__} {where}"
    return LineKind(record.name, record.levelno, template, place)
