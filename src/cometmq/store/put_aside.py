"""Renames and keeps damaged files, so that people can examine them.

Files of config/ stay there as NAME.damaged. Files of queues, index and timer are moved to damaged/ in the store
directory, because a Java broker would read them beside its own.
"""

import itertools

from cometmq.store.disk import Disk

DAMAGED_DIRECTORY = "damaged"


def put_aside(disk: Disk, path: str, target: str) -> str:
    """Rename a file or directory, appending a number if the target exists; return the new path, or raise OSError."""
    numbered = (f"{target}.{number}" for number in itertools.count(2))
    kept = next(name for name in itertools.chain((target,), numbered) if not disk.exists(name))
    disk.rename(path, kept)
    return kept


def put_away(disk: Disk, root: str, path: str) -> str:
    """Move a file or directory of a store into its folder `damaged`; return the new path, or raise OSError."""
    directory = f"{root}/{DAMAGED_DIRECTORY}"
    disk.make_directory(directory)
    place = path.removeprefix(root).strip("/").replace("/", "_")
    kept = put_aside(disk, path, f"{directory}/{place}")
    disk.sync_directory(path.rpartition("/")[0])
    disk.sync_directory(directory)
    return kept
