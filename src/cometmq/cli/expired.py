"""`cometmq store expired`: lists the files that a broker would delete, and why; changes nothing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.asking import Shown, prints
from cometmq.cli.output import note, print_table
from cometmq.cli.store import Config, Folder, store
from cometmq.model.text import plural

if TYPE_CHECKING:
    from cometmq.store.settings import StoreSettings

_HOUR_MS = 3_600_000


class ExpiredFile(NamedTuple):
    """A file that a broker would delete.

    Attributes:
        file: Path of the file.
        bytes: Disk space that this frees, bytes.
        because: The reason.
    """

    file: str
    bytes: int
    because: str


@store.command()
@prints
def expired(
    folder: Folder,
    *,
    config: Config = None,
    hours: Annotated[
        int | None,
        typer.Option(min=1, help="Hours to keep files, instead of fileReservedTime (72)."),
    ] = None,
) -> Shown:
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
    opened = MessageStore.open(root, settings, clock=SystemClock(), read_only=True)
    try:
        files = [
            ExpiredFile(doomed.path, _size_on_disk(doomed.path), doomed.cause)
            for doomed in opened.cleaner.plan()
        ]
    finally:
        opened.close()
    return Shown(files, lambda: _print(files))


def _print(files: Sequence[ExpiredFile]) -> None:
    if not files:
        note("No file would be deleted.")
        return
    print_table(ExpiredFile._fields, files)
    total = sum(file.bytes for file in files)
    note(f"{len(files)} {plural(len(files), 'file')}, {total:,} bytes; nothing was deleted.")


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
