"""The file sizes and delay levels of a store: saved with its archive, and used or changed by a restore.

    PLACE/_archive/sizes.json
    {"mappedFileSizeCommitLog": 1073741824, "mappedFileSizeConsumeQueue": 6000000, "maxHashSlotNum": 5000000,
     "maxIndexNum": 20000000, "delayLevelsMs": [1000, 5000, …], "v": 1}

A broker only opens a store with the sizes of its files (`MappedFileQueue.load` and `ConsumeQueue` of RocketMQ 5.3.3),
so they belong to it. Names of sizes are those of broker.conf.
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
    """Save a store's file sizes and delay levels in its archive (`sizes.json`); raises OSError if that fails."""
    kept: dict[str, object] = {**sizes_of(settings), "v": KEPT_VERSION}
    kept["delayLevelsMs"] = list(settings.delay_levels_ms)
    write_whole(target, SIZES_FILE, json.dumps(kept).encode())


def kept_sizes(source: StoreFolder) -> StoreSettings:
    """Return settings with the sizes and delay levels saved with an archive, or RocketMQ's defaults if none were.

    Raises:
        SettingsError: They have another version.
        StoreDamaged: The file is damaged.
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
    """Return the settings for a restored store, with the chosen sizes or, where they are 0, the archived ones (`kept`).

    Args:
        kept: Settings of the archived store.
        queue_file_size: Bytes of a queue file (mappedFileSizeConsumeQueue).
        index_slots: Slots of an index file (maxHashSlotNum).
        index_entries: Entries of an index file (maxIndexNum).

    Raises:
        SettingsError: A value is negative, or impossible for an index file.
    """
    wanted = {
        "--queue-file-size": queue_file_size,
        "--index-slots": index_slots,
        "--index-entries": index_entries,
    }
    for name, value in wanted.items():
        if value < 0:
            raise SettingsError(
                f"{name} {value} is not a size; use a positive number, or 0 for the size of the archived store"
            )
    if index_entries == 1:
        raise SettingsError(
            "--index-entries 1 leaves no room for keys, because the first entry is not used; use a larger number"
        )
    index = replace(
        kept.index,
        slots=index_slots or kept.index.slots,
        entries=index_entries or kept.index.entries,
    )
    return replace(kept, queue_file_size=queue_file_size or kept.queue_file_size, index=index)


def sizes_of(settings: StoreSettings) -> dict[str, int]:
    """Return the sizes of log, queue and index files by their names in broker.conf."""
    return {
        "mappedFileSizeCommitLog": settings.commitlog_file_size,
        "mappedFileSizeConsumeQueue": settings.queue_file_size,
        "maxHashSlotNum": settings.index.slots,
        "maxIndexNum": settings.index.entries,
    }
