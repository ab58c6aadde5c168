"""`cometmq store`: inspects and repairs a store directory while no broker uses it.

In this file only `repair` opens files for writing. Exit status 1 means that a problem was found (`model.exit_status`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.asking import Shown, prints
from cometmq.cli.output import note, notes, print_json
from cometmq.cli.store_text import print_fields, print_plan, print_summary, print_verdict
from cometmq.model.errors import StoreDamaged
from cometmq.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from cometmq.offline.found import FoundStore
    from cometmq.offline.log_scan import LogScan
    from cometmq.offline.repair import RepairPlan
    from cometmq.store.settings import StoreSettings

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="The store directory (storePathRootDir).",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The broker's configuration file; needed if the log is elsewhere or queue files are missing.",
    ),
]

store = typer.Typer()


class RepairMark(NamedTuple):
    """A mark of the plan of a repair.

    Attributes:
        done: Whether it was done, or only planned.
    """

    done: bool


@store.command("verify")
@prints
def verify_store(folder: Folder, config: Config = None) -> Shown:
    """Check every record, queue entry and index entry; status 1 when it finds an error.

    Nothing is changed.
    """
    from cometmq.offline.verify import verify

    with (
        _found(folder, config) as found,
        progress_bar(_log_size(found), "verifying") as on_progress,
    ):
        verdict = verify(found, on_progress=on_progress)
    return Shown(
        {**asdict(verdict), "is_sound": verdict.is_sound},
        lambda: print_verdict(verdict),
        is_finding=not verdict.is_sound,
    )


@store.command("stat")
@prints
def show_stat(folder: Folder, config: Config = None) -> Shown:
    """Show the contents of a store: files, times, queues, and how it was stopped."""
    from cometmq.offline.summary import summarize

    with _found(folder, config) as found:
        summary = summarize(found)
    return Shown(summary, lambda: print_summary(summary))


@store.command("dump")
def dump_records(
    folder: Folder,
    *,
    topic: Annotated[str | None, typer.Option(help="Only records of this topic.")] = None,
    queue: Annotated[
        int | None, typer.Option(help="Only records of this queue of the topic.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option(help="Start with the record at this physical offset.")
    ] = None,
    count_max: Annotated[
        int | None,
        typer.Option("--max", min=1, metavar="COUNT", help="Stop after so many records."),
    ] = None,
    as_hex: Annotated[
        bool, typer.Option("--hex", help="Show every field in hexadecimal, as stored.")
    ] = False,
    config: Config = None,
) -> None:
    """Print the records of the log, in their order: a JSON object a line, or --hex.

    Damaged bytes are skipped and reported on stderr; status 1 then, unless they only follow the end after a crash.
    """
    from cometmq.offline.record_text import record_json

    with _found(folder, config) as found:
        left, scan = count_max, _scan(found, offset)
        for record in chain.from_iterable(scan):
            if topic not in (None, record.topic) or queue not in (None, record.queue_id):
                continue
            if as_hex:
                print_fields(found, record)
            else:
                print_json(record_json(record))
            left = None if left is None else left - 1
            if left == 0:
                break
        passed_over = list(scan.passed_over())
    for finding in passed_over:
        note(str(finding))
    if any(finding.is_error for finding in passed_over):
        raise typer.Exit(ExitStatus.FOUND)


def _scan(found: "FoundStore", offset: int | None) -> "LogScan":
    """Return a scan of the log from `offset` (None: the start) on; raise StoreDamaged if no record starts there."""
    from cometmq.offline.log_scan import LogScan
    from cometmq.store.log_end import record_at

    if offset is not None:
        file = found.log.chain.find(offset)
        if file is None or record_at(file, offset) is None:
            raise StoreDamaged(
                f"no valid record starts at physical offset {offset} of the log in {found.root}"
            )
    return LogScan(found, start=offset)


@store.command("repair")
@prints
def repair_store(
    folder: Folder,
    *,
    is_wanted: Annotated[
        bool,
        typer.Option("--yes", help="Make the changes. Without this option, only show them."),
    ] = False,
    cut: Annotated[
        bool,
        typer.Option(
            "--cut",
            help="End the log at the first damage instead of wrapping the damaged bytes in a record.",
        ),
    ] = False,
    config: Config = None,
) -> Shown:
    """Rebuild queues and index from the log; hide its damaged bytes from consumers, or --cut the log there.

    Without --yes, it only shows what would be done. Damaged bytes are kept in DIR/cut before they are changed.
    """
    with (
        _found(folder, config) as found,
        progress_bar(_log_size(found), "reading the log") as on_progress,
    ):
        plan = _repair(found, store_settings(config), is_wanted, cut, on_progress)

    def show() -> None:
        print_plan(plan)
        if not is_wanted:
            note("Nothing was changed. Stop the broker and add --yes to make the changes.")

    queues = [*map(str, plan.queues)]
    return Shown({**RepairMark(is_wanted)._asdict(), **plan._asdict(), "queues": queues}, show)


def _repair(
    found: "FoundStore",
    settings: "StoreSettings | None",
    is_wanted: bool,
    cut: bool,
    on_progress: Callable[[int], None],
) -> "RepairPlan":
    from cometmq.net.clock import SystemClock
    from cometmq.offline.repair import plan_repair, repair

    if not is_wanted:
        return plan_repair(found, is_cut=cut, on_progress=on_progress)
    return repair(
        found.root,
        settings,
        clock=SystemClock(),
        disk=found.disk,
        is_cut=cut,
        on_progress=on_progress,
    )


def store_settings(config: str | None) -> "StoreSettings | None":
    """Return a broker's store settings; None if no conf file is given."""
    if config is None:
        return None
    from cometmq.broker.settings.broker_settings import load_settings

    return load_settings(config)[0].store_settings()


@contextmanager
def _found(folder: Path, config: str | None) -> "Iterator[FoundStore]":
    from cometmq.offline.found import find_store
    from cometmq.store.real_disk import RealDisk

    found = find_store(str(folder.absolute()), store_settings(config), RealDisk())
    try:
        yield found
    finally:
        found.close()


def _log_size(found: "FoundStore") -> int:
    return found.log.chain.end - found.log.chain.start


@contextmanager
def progress_bar(total: int | None, what: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar of bytes on a terminal; yield a function that sets the done bytes and maybe the total."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = notes()
    counted = DownloadColumn(), TransferSpeedColumn()
    columns = (f"{what} ", BarColumn(), *counted, TimeRemainingColumn())
    is_shown = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda done, of=total: progress.update(bar, completed=done, total=of)
