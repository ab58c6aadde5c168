"""`cometmq store rebuild`, `compare`, `archive`, `restore` and `import-dledger`: work on files of stores, without Spark.

The corresponding jobs of `cometmq pipeline` use the same functions in parallel (docs/design/0052).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cometmq.cli.asking import Shown, prints
from cometmq.cli.options import read_time
from cometmq.cli.output import screen
from cometmq.cli.store import Config, Folder, progress_bar, store, store_settings
from cometmq.cli.store_text import comparison_json, print_comparison
from cometmq.model.errors import CometError
from cometmq.model.text import printable
from cometmq.offline.findings import Finding

SHOWN_MAX = 20  # Findings printed for people; --json gives all.

Topics = Annotated[
    str, typer.Option("--topic", metavar="A,B", help="Only these topics, separated by commas.")
]
RangeStart = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="OFFSET",
        help="Start with the log file that contains this physical offset.",
    ),
]
RangeEnd = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="OFFSET",
        help="Stop before the log file that contains this physical offset.",
    ),
]


Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write the files to this directory and leave the store unchanged."
    ),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Also archive the bytes of each record, which `restore` needs."),
]
NewFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="The store directory to create; it must be new or empty."
    ),
]


class StoreWork(NamedTuple):
    """The outcome of a command that works on the files of a store.

    Attributes:
        counts: Numbers of what it read or wrote, by name.
        findings: All findings.
    """

    counts: Mapping[str, int]
    findings: list[Finding]


@store.command("rebuild")
@prints
def rebuild_store(
    folder: Folder,
    *,
    topic: Topics = "",
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with the existing queue files; change nothing."),
    ] = False,
    out: Out = None,
    config: Config = None,
) -> Shown:
    """Rebuild queue files and index from the log of a stopped broker, or only --check queue files.

    With --topic only the queues of these topics, and no index. Findings, with status 1: bytes of the log
    that are no record, and differences with --check.
    """
    need_arrow()
    from cometmq.net.clock import SystemClock
    from cometmq.offline.rebuild_store import StoreRebuild

    made = StoreRebuild.of(
        str(folder.absolute()),
        store_settings(config),
        topics=_names(topic),
        out=str(out.absolute()) if out is not None else "",
        is_check=check,
    )
    tasks = made.tasks()
    made.begin()
    rows = []
    with progress_bar(
        sum(split.hi - split.lo for task in tasks for split in task), "rebuilding"
    ) as show:
        done = 0
        for task in tasks:
            rows += made.work(task)
            done += sum(split.hi - split.lo for split in task)
            show(done)
    found = made.finish(rows, clock=SystemClock())
    return _end(found.counts, found.findings)


@store.command("compare")
@prints
def compare_stores(
    first: Folder,
    second: Folder,
    *,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Also compare store times, hosts, attempts and physical offsets."
        ),
    ] = False,
) -> Shown:
    """Compare the messages of two stores, or of a store and an archive, queue by queue; status 1 when they differ.

    Only what both should hold is compared, not what retention has deleted in one of them. The status is also 1 for
    damage, such as bytes of a log that are no record.
    """
    need_arrow()
    from cometmq.net.clock import SystemClock
    from cometmq.offline.copy_compare import compare_folders

    with progress_bar(None, "comparing") as show:
        found = compare_folders(
            str(first.absolute()),
            str(second.absolute()),
            clock=SystemClock(),
            is_exact=exact,
            on_progress=show,
        )
    return Shown(
        comparison_json(found),
        lambda: print_comparison(found),
        is_finding=bool(not found.is_same or found.damages),
    )


@store.command("archive")
@prints
def archive_store(
    folder: Folder,
    *,
    to: Annotated[str, typer.Option(metavar="PLACE", help="Folder or URI of the archive.")],
    raw: Raw = False,
    topic: Topics = "",
    until: Annotated[
        str, typer.Option(metavar="TIME", help="Only messages stored before this time.")
    ] = "",
    config: Config = None,
) -> Shown:
    """Write the log as Parquet files, by topic and day; what is archived already is left out.

    A broker may have the store open. A new place gets all that is selected. Findings, with status 1: bytes of the log
    that are no record, damaged bodies, and parts of the log that were deleted before they were archived.
    """
    need_arrow()
    from cometmq.offline import archive
    from cometmq.offline.findings import Findings
    from cometmq.offline.folder import StoreFolder
    from cometmq.offline.place import same_place
    from cometmq.offline.plan import LogRange

    source = StoreFolder(str(folder.absolute()), _log_paths(folder, config))
    end_ms = read_time(until, option="--until") if until else None
    rules = archive.ArchiveRules(same_place(to), is_raw=raw, topics=_names(topic))
    kept = archive.read_config(source)
    splits = archive.plan_archive(source, LogRange(end_ms=end_ms), rules)
    archive.begin_archive(splits, rules)
    counts, found = {"rows": 0, "bytes": 0, "files": 0}, Findings()
    with progress_bar(sum(split.hi - split.lo for split in splits), "archiving") as show:
        done = 0
        for split in splits:
            for file in archive.archive_task(source, [split], rules, on_finding=found.take):
                counts["rows"] += file.rows
                counts["bytes"] += file.size
                counts["files"] += 1
            done += split.hi - split.lo
            show(done)
    archive.finish_archive(source, splits, rules, config=kept)
    for finding in archive.findings_of(source, rules):
        found.take(finding)
    return _end(counts, found.told())


@store.command("restore")
@prints
def restore_store(
    archive: Annotated[
        str,
        typer.Argument(metavar="ARCHIVE", help="Folder or URI of an archive made with --raw."),
    ],
    folder: NewFolder,
    *,
    start: RangeStart = None,
    end: RangeEnd = None,
) -> Shown:
    """Recreate a store, or a range of its log, from an archive: the same records in log files of the same size.

    Records that the archive lacks are findings; status 1 then.
    """
    need_arrow()
    from cometmq.net.clock import SystemClock
    from cometmq.offline.place import local_place, same_place
    from cometmq.offline.restore import (
        begin_restore,
        finish_restore,
        plan_restore,
        restore_task,
    )

    place = same_place(archive)
    to = local_place(str(folder))
    parts = plan_restore(place, to, start=start, end=end)
    begin_restore(parts)
    files = []
    with progress_bar(sum(part.size for part in parts), "restoring") as show:
        for part in parts:
            files.append(restore_task(part))
            show(part.start + part.size - parts[0].start)
    entries = finish_restore(parts, to, clock=SystemClock())
    counts = {
        "rows": sum(file.records for file in files),
        "log files": len(files),
        "queue entries": entries,
    }
    return _end(counts, [found for file in files for found in file.findings()])


@store.command("import-dledger")
@prints
def import_dledger_store(
    folder: Folder,
    *,
    to: Annotated[
        Path,
        typer.Option(
            metavar="STORE", help="The store directory to create; it must be new or empty."
        ),
    ],
    config: Config = None,
) -> Shown:
    """Make an ordinary store of what a stopped DLedger broker (enableDLegerCommitLog) of RocketMQ has committed.

    DIR is its storePathRootDir, and is not changed. Any member of the group will do if all were stopped in order.
    Findings, with status 1: entries after the committed index, which are left out.
    """
    from cometmq.net.clock import SystemClock
    from cometmq.offline.dledger_log import find_dledger
    from cometmq.offline.import_dledger import import_dledger
    from cometmq.store.real_disk import RealDisk

    disk = RealDisk()
    source = find_dledger(str(folder.absolute()), store_settings(config), disk)
    try:
        size = source.log.chain.end - source.log.chain.start
        with progress_bar(size, "importing") as show:
            done = import_dledger(
                source, str(to), clock=SystemClock(), disk=disk, on_progress=show
            )
    finally:
        source.close()
    counts = {"messages": done.records, "log files": done.log_files}
    return _end(counts, done.findings)


def _log_paths(folder: Path, config: str | None) -> tuple[str, ...]:
    """Return the folders of the log that a broker's configuration names, read-only ones too; empty if it names none."""
    settings = store_settings(config)
    if settings is None or not (settings.commitlog_paths or settings.read_only_commitlog_paths):
        return ()
    own = settings.commitlog_paths or (str(folder.absolute() / "commitlog"),)
    return tuple(dict.fromkeys((*own, *settings.read_only_commitlog_paths)))


def need_arrow() -> None:
    """Raise CometError, which says how to install it, if numpy or pyarrow is missing."""
    try:
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise CometError(
            f"this command needs {error.name}, which is not installed; run pip install 'cometmq[arrow]'"
        ) from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _end(counts: Mapping[str, int], findings: Iterable[Finding]) -> Shown:
    """Return counts and findings (as text at most 20) as the output of a command; with findings its status is 1."""
    found = list(findings)

    def show() -> None:
        for each in found[:SHOWN_MAX]:
            screen().print(printable(str(each)), markup=False)
        if len(found) > SHOWN_MAX:
            screen().print(f"… and {len(found) - SHOWN_MAX} more")
        screen().print(", ".join(f"{count:,} {name}" for name, count in counts.items()))

    return Shown(StoreWork(counts, found), show, is_finding=bool(found))
