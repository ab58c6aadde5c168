"""The file `repair.cometmq`: the data that is needed to continue an aborted repair.

    repair.cometmq     JSON; there while a repair runs

File sizes and delay levels are normally derived from queues and index. While these are being rebuilt, this file is
the only source.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from cometmq.codec.fastjson import dumps, loads
from cometmq.model.errors import CodecError
from cometmq.store.disk import Disk, read_file, write_file
from cometmq.store.settings import StoreSettings

NAME = "repair.cometmq"


def note(disk: Disk, root: str, settings: StoreSettings) -> None:
    """Record the start of a repair.

    Raises:
        OSError: The file could not be written.
    """
    known = {
        "queueFileSize": settings.queue_file_size,
        "indexSlots": settings.index.slots,
        "indexEntries": settings.index.entries,
        "delayLevelsMs": list(settings.delay_levels_ms),
    }
    write_file(disk, f"{root}/{NAME}", dumps(known))


def known(disk: Disk, root: str, settings: StoreSettings) -> StoreSettings | None:
    """Return the settings recorded by an aborted repair; None if there was none."""
    with suppress(FileNotFoundError, CodecError, KeyError, TypeError, AttributeError):
        found: dict[str, Any] = loads(read_file(disk, f"{root}/{NAME}"))
        index = replace(
            settings.index, slots=found["indexSlots"], entries=found["indexEntries"]
        )
        return replace(
            settings,
            queue_file_size=found["queueFileSize"],
            index=index,
            delay_levels_ms=tuple(found["delayLevelsMs"]),
        )
    return None


def forget(disk: Disk, root: str) -> None:
    """Record the end of a repair.

    Raises:
        OSError: The file could not be removed.
    """
    disk.unlink(f"{root}/{NAME}")
    disk.sync_directory(root)
