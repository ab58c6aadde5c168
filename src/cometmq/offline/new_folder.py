"""The directory of a store that is built elsewhere first and then renamed, so that it is complete or does not exist."""

import os
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
