"""Files with secrets: writes them atomically, creates them for the owner only, and checks who owns file and folder."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from cometmq.model.errors import SettingsError


def check_owner(path: str) -> None:
    """Reject a file of users if it or its folder has an untrusted owner, or if everybody may replace it.

    The file, its folder and the folder of its link target must belong to the user of this process or to root, and the
    folders must not be writable by everybody (unless they have the sticky bit).

    Raises:
        SettingsError: One of these conditions is not met; the message names the place.
        OSError: The file cannot be examined.
    """
    trusted = (0, os.geteuid())
    if os.stat(path).st_uid not in trusted:  # noqa: PTH116
        raise SettingsError(
            f"{path} belongs to another user: chown it to the user who runs the server"
        )
    for folder in {Path(path).parent, Path(os.path.realpath(path)).parent}:
        status = folder.stat()
        is_open = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        if is_open or status.st_uid not in trusted:
            raise SettingsError(
                f"{folder} contains users, but other users may write to it: chmod 700 it, and chown it to the user "
                "who runs the server"
            )


def write_whole_file(path: str, content: bytes) -> None:
    """Replace a file so that a power cut leaves either the old or the new content.

    A new file is readable by the owner only; otherwise the mode is kept. Raises OSError if writing fails; the old content
    is then unchanged, unless only the flush of the folder failed.
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
