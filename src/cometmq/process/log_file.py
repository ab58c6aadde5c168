"""The log format and log file that environment variables select.

`COMETMQ_LOG_FORMAT=json` writes each line as a JSON object. `COMETMQ_LOG_FILE` names a file instead of standard error,
limited to 64 MiB, with up to nine older files beside it (`.1` is the newest), as logback does for RocketMQ.
"""

import errno
import json
import logging
import os
import time
from collections.abc import Mapping
from io import TextIOBase
from pathlib import Path
from typing import TextIO

from cometmq.model.errors import SettingsError
from cometmq.process.program_log import OneLineFormatter

FORMAT, FILE = "COMETMQ_LOG_FORMAT", "COMETMQ_LOG_FILE"
FILE_SIZE_MAX = 64 << 20
FILES_MAX = 10


class JsonLineFormatter(OneLineFormatter):
    """Formats a log record as JSON: time, level, logger, message, and the traceback of an error."""

    def __init__(self) -> None:
        super().__init__("%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON in ASCII."""
        message, _, trace = super().format(record).partition("\n")
        moment = time.gmtime(record.created)
        line = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": message,
        }
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
        self._file.close()
        names = [self._path, *(Path(f"{self._path}.{n}") for n in range(1, self._files_max))]
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)
        self._open()

    def flush(self) -> None:
        """Flush buffered text to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Write the buffered text and close the file."""
        self._file.close()


def asked_log(
    environment: Mapping[str, str],
) -> tuple[logging.Formatter | None, TextIO | None]:
    """Return the log formatter and file that the environment selects; None means the default.

    Raises SettingsError if the format is unknown, or the file cannot be written.
    """
    wanted, path = environment.get(FORMAT, ""), environment.get(FILE, "")
    if wanted not in ("", "text", "json"):
        raise SettingsError(f"{FORMAT}={wanted}: it must be json or text")
    formatter = JsonLineFormatter() if wanted == "json" else None
    if not path:
        return formatter, None
    try:
        return formatter, RotatedFile(Path(path))  # type: ignore[return-value]
    except OSError as error:
        raise SettingsError(
            f"{FILE}={path}: {'this is a symbolic link' if error.errno == errno.ELOOP else error.strerror}; name a "
            "writable file"
        ) from error
