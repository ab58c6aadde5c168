"""Damaged files get another name and are kept: what could not be read may still be looked at.

Those of config/ stay where they are, as NAME.damaged. Files of queues, index and timer go to damaged/
in the store directory, for a Java broker reads whatever lies beside its own.
"""

import itertools

from cometmq.store.disk import Disk

DAMAGED_DIRECTORY = "damaged"


def put_aside(disk: Disk, path: str, target: str) -> str:
    """Give a file, or a directory, another name; one with a number where that is taken.

    Returns:
        The new name.

    Raises:
        OSError: the disk failed.
    """
    numbered = (f"{target}.{number}" for number in itertools.count(2))
    kept = next(name for name in itertools.chain((target,), numbered) if not disk.exists(name))
    disk.rename(path, kept)
    return kept


def put_away(disk: Disk, root: str, path: str) -> str:
    """Move a file of a store into its folder of damaged ones; the new name.

    Raises:
        OSError: the disk failed.
    """
    directory = f"{root}/{DAMAGED_DIRECTORY}"
    disk.make_directory(directory)
    place = path.removeprefix(root).strip("/").replace("/", "_")
    kept = put_aside(disk, path, f"{directory}/{place}")
    disk.sync_directory(path.rpartition("/")[0])
    disk.sync_directory(directory)
    return kept
