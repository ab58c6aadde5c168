"""The log of a program: its format and file, which environment variables select, its level, and its rotation.

`COMETMQ_LOG_FORMAT=json` writes each line as a JSON object. `COMETMQ_LOG_FILE` names a file instead of standard error,
limited to 64 MiB, with up to nine older files beside it (`.1` is the newest), as logback does for RocketMQ. SIGHUP opens
the file anew, after logrotate has moved it.
"""

import asyncio
import errno
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from io import TextIOBase
from pathlib import Path
from types import TracebackType

from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import status_of
from cometmq.model.text import as_utf8, cut, error_text
from cometmq.process.program_log import (
    LINE_FORMAT,
    MESSAGE_MAX,
    CountingHandler,
    LogLevel,
    OneLineFormatter,
)

# The logger of who changed what (net.audit); its lines do not depend on the level of the log.
AUDIT = "cometmq.audit"
FORMAT, FILE, LEVEL = "COMETMQ_LOG_FORMAT", "COMETMQ_LOG_FILE", "COMETMQ_LOG_LEVEL"
FILE_SIZE_MAX = 64 << 20
FILES_MAX = 10


_log = logging.getLogger(__name__)


class JsonLineFormatter(OneLineFormatter):
    """Formats a log record as JSON: time, level, logger, message, its `fields` if any, and the traceback of an error."""

    def __init__(self) -> None:
        super().__init__("%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON in ASCII."""
        message, _, trace = super().format(record).partition("\n")
        moment = time.gmtime(record.created)
        line: dict[str, str | None] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": message,
        }
        fields: Mapping[str, str | None] = getattr(record, "fields", {})
        line |= {name: text and cut(text, MESSAGE_MAX) for name, text in fields.items()}
        if trace:
            line["trace"] = trace
        return json.dumps(line)


class RotatedFile(TextIOBase):
    """A log file that is rotated when full; old files are numbered and the oldest is deleted."""

    def __init__(
        self, path: Path, *, size_max: int = FILE_SIZE_MAX, files_max: int = FILES_MAX
    ) -> None:
        """Open the file for appending. Raises OSError if it cannot be opened."""
        self._path = path
        self._size_max = size_max
        self._files_max = files_max
        self._open()

    def _open(self) -> None:
        # No symbolic links, with which others could redirect lines with names of users and topics.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o640)
        self._file = os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")
        self._size = os.fstat(descriptor).st_size

    def write(self, text: str) -> int:
        """Write a line, to a new file if this one would become too large; return the number of characters."""
        size = len(text.encode(errors="backslashreplace"))
        if self._size and self._size + size > self._size_max:
            self._rotate()
        self._size += size
        return self._file.write(text)

    def _rotate(self) -> None:
        names = [self._path, *(Path(f"{self._path}.{n}") for n in range(1, self._files_max))]
        try:
            for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
                if newer.exists():
                    newer.replace(older)
            self.reopen()
        except OSError as error:
            self._size = 0  # The lines go on into this file; the next try follows when as much was written again.
            sys.stderr.write(f"{self._path} cannot be rotated: {error_text(error)}\n")

    def reopen(self) -> None:
        """Open the path anew, since the file was moved; raise OSError, and keep the open file, if that fails."""
        before = self._file
        self._open()
        before.close()

    def flush(self) -> None:
        """Flush buffered text to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Write the buffered text and close the file."""
        self._file.close()


class ProgramLog:
    """The log of this process: lines of all loggers, and the few lines that the program itself prints.

    Attributes:
        is_json: Whether each line is a JSON object.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        level: LogLevel = LogLevel.info,
        *,
        line_format: str = LINE_FORMAT,
        has_audit: bool = True,
    ) -> None:
        """Start the log that the environment selects; Python's warnings and uncaught errors are written to it, too.

        Args:
            environment: Variables of the process.
            level: Level until `set_level`, unless the environment has one.
            line_format: Format of the lines, unless they are JSON.
            has_audit: Whether the lines of the audit log are written at any level.

        Raises:
            SettingsError: The format or level is unknown, or the file cannot be written.
        """
        wanted, path = environment.get(FORMAT, ""), environment.get(FILE, "")
        wanted_level = environment.get(LEVEL, "").strip().lower() or level.name
        if wanted_level not in LogLevel.__members__:
            raise SettingsError(
                f"{LEVEL}={wanted_level}: it must be one of {', '.join(LogLevel.__members__)}"
            )
        if wanted not in ("", "text", "json"):
            raise SettingsError(f"{FORMAT}={wanted}: it must be json or text")
        self.is_json = wanted == "json"
        self._path = path
        self._file = _opened(path) if path else None
        self._formatter = JsonLineFormatter() if self.is_json else OneLineFormatter(line_format)
        self._handler = CountingHandler(self._file)  # type: ignore[arg-type]
        self._handler.setFormatter(self._formatter)
        logging.getLogger().addHandler(self._handler)
        self.set_level(LogLevel[wanted_level])
        if has_audit:
            logging.getLogger(AUDIT).setLevel(logging.INFO)
        logging.captureWarnings(capture=True)
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_in_thread

    def set_level(self, level: LogLevel) -> None:
        """Write lines of this level and above from now on; those of the audit log in any case, if `has_audit`."""
        logging.getLogger().setLevel(level.value)

    def until_stopped(self, stop: Callable[[], object]) -> None:
        """Call `stop` at SIGTERM and SIGINT; treat SIGHUP as `follow_hangups` does. Call this on the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        self.follow_hangups(stop)

    def follow_hangups(self, stop: Callable[[], object]) -> None:
        """Open the log file anew at each SIGHUP. Call this on the running loop.

        Without a file, SIGHUP means that the terminal was closed, and calls `stop`, unless it is ignored (nohup).
        """
        loop = asyncio.get_running_loop()
        if self._file is not None:
            loop.add_signal_handler(signal.SIGHUP, self.reopen)
        elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, stop)

    def reopen(self) -> None:
        """Open the log file anew, if there is one; if that fails, log it and go on with the open file."""
        if self._file is None:
            return
        try:
            with self._handler.lock or threading.Lock():  # No line is written meanwhile.
                self._file.reopen()
        except OSError as error:
            _log.error("%s cannot be opened anew, so lines go on into the old file: %s", self._path, error_text(error))  # fmt: skip
        else:
            _log.info("%s was opened anew (SIGHUP)", self._path)

    def print(self, text: str) -> None:
        """Write a line to standard output, in the format of the log; for what scripts wait for."""
        sys.stdout.write(self._line(logging.INFO, text))
        sys.stdout.flush()

    def failed(self, text: str) -> None:
        """Write why the program cannot start, or ends: to standard error, and to the log file if there is one."""
        if self._file is not None:
            _log.critical("%s", text)
        sys.stderr.write(self._line(logging.CRITICAL, text))

    def _line(self, level: int, text: str) -> str:
        if not self.is_json:
            return f"{text}\n"
        record = logging.LogRecord("cometmq", level, "", 0, text, None, None)
        return f"{self._formatter.format(record)}\n"


def failed_start(program: str, why: str, error: Exception, log: ProgramLog | None) -> int:
    """Write why a program cannot start, to its log if it has one already; return the exit status for the error."""
    text = f"The {program} cannot start: {as_utf8(why)}"
    if log is None:
        sys.stderr.write(f"{text}\n")
    else:
        log.failed(text)
    return status_of(error)


def _opened(path: str) -> RotatedFile:
    try:
        return RotatedFile(Path(path))
    except OSError as error:
        raise SettingsError(
            f"{FILE}={path}: {'this is a symbolic link' if error.errno == errno.ELOOP else error.strerror}; name a "
            "writable file"
        ) from error


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    _log.critical("the program ends with an error", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_type is SystemExit:
        return
    name = "unknown" if failed.thread is None else failed.thread.name
    _log.critical("the thread %s has ended with an error", name, exc_info=failed.exc_value)
