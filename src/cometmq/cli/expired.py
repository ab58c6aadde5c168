"""`cometmq store expired`: lists the files that a broker would delete, and why; changes nothing."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.options import AsJson
from cometmq.cli.output import notes, print_json, print_table
from cometmq.cli.store import Config, Folder
from cometmq.model.text import plural

if TYPE_CHECKING:
    from cometmq.store.settings import StoreSettings

_HOUR_MS = 3_600_000


class ExpiredFile(NamedTuple):
    """A file that a broker would delete: path, disk space that this frees (`bytes`), and reason."""

    file: str
    bytes: int
    because: str


def expired(
    folder: Folder,
    *,
    config: Config = None,
    hours: Annotated[
        int | None,
        typer.Option(min=1, help="Hours to keep files, instead of fileReservedTime (72)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the files that a broker would delete at its next hour of deletion.

    A dry run: nothing is changed. Files are judged by their present ages, as if the hour were now. Settings in the
    broker's conf file (-c) determine which files expire.
    """
    from cometmq.net.clock import SystemClock
    from cometmq.store.message_store import MessageStore

    root = str(folder.absolute())
    settings = _settings(root, config)
    if hours is not None:
        retention = replace(settings.retention, reserved_ms=hours * _HOUR_MS)
        settings = replace(settings, retention=retention)
    store = MessageStore.open(root, settings, clock=SystemClock(), read_only=True)
    try:
        files = [
            ExpiredFile(doomed.path, _size_on_disk(doomed.path), doomed.cause)
            for doomed in store.cleaner.plan()
        ]
    finally:
        store.close()
    if as_json:
        print_json([file._asdict() for file in files])
    elif files:
        print_table(ExpiredFile._fields, files)
        total = sum(file.bytes for file in files)
        notes().print(
            f"{len(files)} {plural(len(files), 'file')}, {total:,} bytes; nothing was deleted."
        )
    else:
        notes().print("No file would be deleted.")


def _settings(root: str, config: str | None) -> "StoreSettings":
    """Return the store settings of a broker with this conf file (None: without), with the file sizes in the store."""
    from cometmq.broker.settings.broker_settings import load_settings
    from cometmq.offline.found import with_found_sizes
    from cometmq.store.real_disk import RealDisk

    told = load_settings(config)[0].store_settings()
    return with_found_sizes(root, told, RealDisk())


def _size_on_disk(path: str) -> int:
    """Return the bytes that a file occupies on disk; queue files are sparse."""
    return Path(path).stat().st_blocks * 512
