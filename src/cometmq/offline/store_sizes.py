"""The sizes of a store's files: kept by an archive, chosen in a restore, told to who opens the store.

    PLACE/_archive/sizes.json
    {"mappedFileSizeCommitLog": 1073741824, "mappedFileSizeConsumeQueue": 6000000, "maxHashSlotNum": 5000000,
     "maxIndexNum": 20000000, "delayLevelsMs": [1000, 5000, …], "v": 1}

A broker opens a store only with the sizes that its files have (`MappedFileQueue.load` and
`ConsumeQueue` of RocketMQ 5.3.3), so they belong to it. The names are those of broker.conf.
"""

import json
from dataclasses import replace
from typing import Any

from cometmq.model.errors import SettingsError
from cometmq.offline.archive_files import KEPT_VERSION, read_kept, write_whole
from cometmq.offline.folder import StoreFolder
from cometmq.store.settings import StoreSettings

SIZES_FILE = "_archive/sizes.json"


def keep_sizes(target: StoreFolder, settings: StoreSettings) -> None:
    """Note the sizes of the store that is archived.

    Raises:
        OSError: it could not be written.
    """
    kept: dict[str, object] = {**sizes_of(settings), "v": KEPT_VERSION}
    kept["delayLevelsMs"] = list(settings.delay_levels_ms)
    write_whole(target, SIZES_FILE, json.dumps(kept).encode())


def kept_sizes(source: StoreFolder) -> StoreSettings:
    """The sizes that an archive has kept; RocketMQ's defaults for what it has not.

    Raises:
        SettingsError: they were written by a later version.
        StoreDamaged: their file is damaged.
    """
    defaults = StoreSettings()

    def parse(found: Any) -> StoreSettings:
        return replace(
            defaults,
            commitlog_file_size=found["mappedFileSizeCommitLog"],
            queue_file_size=found["mappedFileSizeConsumeQueue"],
            delay_levels_ms=tuple(found["delayLevelsMs"]),
            index=replace(
                defaults.index, slots=found["maxHashSlotNum"], entries=found["maxIndexNum"]
            ),
        )

    return read_kept(source, SIZES_FILE, parse) or defaults


def chosen_sizes(
    kept: StoreSettings, *, queue_file_size: int, index_slots: int, index_entries: int
) -> StoreSettings:
    """The sizes of a restored store: those that are chosen, else those that were kept.

    Args:
        kept: of the store that was archived.
        queue_file_size: bytes (mappedFileSizeConsumeQueue); 0: as it was.
        index_slots: of an index file (maxHashSlotNum); 0: as it was.
        index_entries: of an index file (maxIndexNum); 0: as it was.

    Raises:
        SettingsError: one is negative, or no file of an index.
    """
    wanted = {
        "--queue-file-size": queue_file_size,
        "--index-slots": index_slots,
        "--index-entries": index_entries,
    }
    for name, value in wanted.items():
        if value < 0:
            raise SettingsError(f"{name} {value} is no size; 0 keeps what the store had")
    if index_entries == 1:
        raise SettingsError("--index-entries 1 holds no key: the first entry is not used")
    index = replace(
        kept.index,
        slots=index_slots or kept.index.slots,
        entries=index_entries or kept.index.entries,
    )
    return replace(kept, queue_file_size=queue_file_size or kept.queue_file_size, index=index)


def sizes_of(settings: StoreSettings) -> dict[str, int]:
    """The sizes as broker.conf names them."""
    return {
        "mappedFileSizeCommitLog": settings.commitlog_file_size,
        "mappedFileSizeConsumeQueue": settings.queue_file_size,
        "maxHashSlotNum": settings.index.slots,
        "maxIndexNum": settings.index.entries,
    }
