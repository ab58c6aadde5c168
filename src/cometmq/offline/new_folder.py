"""Directories that are built elsewhere first and then renamed, so that they are complete or do not exist."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from cometmq.model.errors import SettingsError
from cometmq.store.real_disk import RealDisk


def check_new(to: str) -> None:
    """Raise SettingsError unless a directory for a new store is missing or empty."""
    if os.path.lexists(to) and (not Path(to).is_dir() or any(Path(to).iterdir())):
        raise SettingsError(f"{to} is not empty; name a new directory for the store")


def put_in_place(out: str, to: str) -> None:
    """Sync a complete store and rename it; raises OSError, for example if `to` is no longer empty."""
    RealDisk().sync_all(out)
    if Path(to).is_dir():
        Path(to).rmdir()
    Path(out).rename(to)
    RealDisk().sync_directory(str(Path(to).absolute().parent))


def replace_folder(fresh: Path, place: Path) -> None:
    """Rename the folder `fresh` to `place`; a folder there is renamed to `.old` first, and deleted at the end."""
    old = place.with_name(place.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    with suppress(FileNotFoundError):
        place.rename(old)
    fresh.rename(place)
    shutil.rmtree(old, ignore_errors=True)
