"""Writes files that hold secrets: whole, to the device, and readable by their owner alone."""

import os
from contextlib import suppress
from pathlib import Path


def write_whole_file(path: str, content: bytes) -> None:
    """Replace a file: after a power cut there is the old content or the new one.

    A new file is readable by its owner alone, another one as it was before.

    Raises:
        OSError: it could not be written; the old content stands.
    """
    fresh = f"{path}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(fresh)  # noqa: PTH108
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), os.stat(path).st_mode & 0o777)  # noqa: PTH116
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)  # noqa: PTH105
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)  # noqa: PTH108
        raise
    folder = os.open(Path(path).parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
