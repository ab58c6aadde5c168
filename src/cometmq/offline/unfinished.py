"""The file `repair.cometmq`: the facts that a repair needs to be taken up again after it was broken off.

    repair.cometmq     JSON; there while a repair runs

Queues and index show the sizes of their files and the delay levels; between their removal and
the moment when they are built again nothing would.
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
    """A repair begins.

    Raises:
        OSError: it could not be written.
    """
    known = {
        "queueFileSize": settings.queue_file_size,
        "indexSlots": settings.index.slots,
        "indexEntries": settings.index.entries,
        "delayLevelsMs": list(settings.delay_levels_ms),
    }
    write_file(disk, f"{root}/{NAME}", dumps(known))


def known(disk: Disk, root: str, settings: StoreSettings) -> StoreSettings | None:
    """The facts kept by a repair that was broken off here; None where none was."""
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
    """The repair is through.

    Raises:
        OSError: the file could not be removed.
    """
    disk.unlink(f"{root}/{NAME}")
    disk.sync_directory(root)
