"""The file `repair.cometmq`: JSON with file sizes and delay levels; exists while a repair changes files, and after an abort.

Sizes and levels are normally derived from queues and index. While these are being rebuilt, this file is the only source
for another repair that continues an aborted one.
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
    """Write `repair.cometmq`, with file sizes and delay levels, before a repair changes files; OSError if that fails."""
    known = {
        "queueFileSize": settings.queue_file_size,
        "indexSlots": settings.index.slots,
        "indexEntries": settings.index.entries,
        "delayLevelsMs": list(settings.delay_levels_ms),
    }
    write_file(disk, f"{root}/{NAME}", dumps(known))


def known(disk: Disk, root: str, settings: StoreSettings) -> StoreSettings | None:
    """Return `settings` with the sizes and delay levels recorded by an aborted repair; None without a valid record."""
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
    """Delete `repair.cometmq` when a repair is complete; raises OSError if that fails."""
    disk.unlink(f"{root}/{NAME}")
    disk.sync_directory(root)
