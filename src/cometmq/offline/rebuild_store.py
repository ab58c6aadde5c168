"""Rebuilds queues and index of a store from its log: the command does it in a loop, the Spark job in tasks.

`of` -> `begin` -> `work` for each of `tasks`, in any order -> `finish`
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.offline import rebuild as queues
from cometmq.offline import rebuild_keys as keys
from cometmq.offline.findings import Finding, Findings
from cometmq.offline.folder import StoreFolder
from cometmq.offline.folder_queues import known_queues_in
from cometmq.offline.lives import WrittenRun
from cometmq.offline.log_end import check_has_records, used_files
from cometmq.offline.plan import Task, plan_tasks
from cometmq.offline.queue_reader import QUEUES
from cometmq.store.index_file import IndexShape
from cometmq.store.settings import StoreSettings

_CHECKED = "checked"  # Subfolder of the store in which a check creates new files.

Row = list[Any]


class RebuildResult(NamedTuple):
    """The result of a rebuild.

    Attributes:
        counts: Numbers of "queue entries", "keys" (if an index was built) and "queues" (if installed).
        findings: Bytes of the log that are not records and, for a check, queue files that are missing or differ.
    """

    counts: dict[str, int]
    findings: list[Finding]


@dataclass(frozen=True)
class StoreRebuild:
    """A rebuild of queues and index of a store on this machine; picklable.

    Attributes:
        target: Destination of the queue files.
        shape: Slots and entries of the new index files; None to build no index.
        is_check: Compare with the existing queue files, which stay unchanged.
        is_installed: Replace the old files by the new ones.
    """

    root: str
    target: queues.RebuildTarget
    shape: IndexShape | None
    is_check: bool = False
    is_installed: bool = True

    @classmethod
    def of(
        cls,
        root: str,
        settings: StoreSettings | None = None,
        *,
        topics: Sequence[str] = (),
        out: str = "",
        is_check: bool = False,
    ) -> "StoreRebuild":
        """Create a rebuild from the store's settings and file sizes.

        Args:
            root: The store directory.
            settings: The broker's settings; None to derive them from the files.
            topics: Only these topics' queues, and no index; empty for all.
            out: Another directory for the new files; the store stays unchanged.
            is_check: Compare with the existing queue files, which stay unchanged; build no index.

        Raises:
            SettingsError: `is_check` and `out` are combined, or `out` is a store, whose queues would be lost.
            StoreDamaged: There is no log file.
        """
        if is_check and out:
            raise SettingsError("--check writes no files: leave out --out")
        if out and (
            Path(out, "commitlog").exists() or Path(out).resolve() == Path(root).resolve()
        ):
            raise SettingsError(
                f"--out {out} is a store, whose queue files would be removed: name a new directory"
            )
        found = queues.found_settings(root, settings)
        place = f"{root}/{_CHECKED}" if is_check else out or f"{root}/{queues.REBUILT}"
        target = queues.target_of(root, found, out=place, topics=topics)
        shape = None
        if not topics and not is_check:
            shape = IndexShape(found.index.slots, found.index.entries)
        return cls(root, target, shape, is_check, not (is_check or out))

    def tasks(self) -> list[Task]:
        """Divide the log into tasks; raises StoreDamaged, for example if there is no log."""
        folder = StoreFolder(self.root)
        check_has_records(folder, used_files(folder))
        return plan_tasks(folder)

    def begin(self) -> None:
        """Create empty folders for the new files; what the destination has under their names is deleted."""
        queues.begin(self.target)
        keys.begin_keys(self.target.root)

    def work(self, task: Task) -> list[Row]:
        """Do a task: return a row with the number of keys, one per run of queue entries, and rows of findings.

        Repeatable before `finish`. Raises OSError if a file cannot be read or written.
        """
        folder, found = StoreFolder(self.root), Findings()
        count = keys.keys_task(folder, task, self.target.root) if self.shape else 0
        runs = queues.rebuild_task(folder, task, self.target, on_finding=found.take)
        written = (list(run.to_dict().values()) for run in runs)
        return [[count], *written, *map(list, found.told())]

    def finish(self, rows: Iterable[Row], *, clock: Clock) -> RebuildResult:
        """Complete the rebuild from all tasks' rows: fill gaps, then compare or, as asked, build the index and install.

        Raises:
            StoreLocked: A program has the directory open; only when installing.
            StoreDamaged: Two records claim one queue offset, and no deletion of their topic between or after them is known.
            OSError: A file could not be read or written.
        """
        written, findings = [], list[Finding]()
        for row in rows:
            if len(row) == len(Finding._fields):
                findings.append(Finding(*row))
            elif len(row) > 1:
                written.append(WrittenRun(*row))
        known = known_queues_in(StoreFolder(self.root))
        entries = queues.finish(self.target, written, known)
        counts, out = {"queue entries": entries}, self.target.root
        if self.is_check:
            findings += _differences(self.root, out)
            shutil.rmtree(out)
            return RebuildResult(counts, findings)
        if self.shape:
            counts["keys"] = keys.finish_keys(out, self.shape, clock=clock)
        if self.is_installed:
            if self.shape:
                keys.install_keys(self.root, out)
            counts["queues"] = queues.install(self.root, self.target)
        return RebuildResult(counts, findings)


def _differences(root: str, out: str) -> Iterator[Finding]:
    for path in sorted(Path(out, QUEUES).rglob("[0-9]" * 20)):
        name = str(path.relative_to(out))
        old = Path(root, name)
        if not old.exists():
            yield Finding("queue", name, "is missing")
        elif old.read_bytes() != path.read_bytes():
            yield Finding("queue", name, "differs from the log")
