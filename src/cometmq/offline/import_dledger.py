"""Imports the log of a DLedger broker into an ordinary store: `find_dledger`, then `import_dledger`.

Each committed record is copied without DLedger's header. This moves the records closer together, so physical offsets
in them are rewritten, and so are CRCs of whole records. The log begins at the same offset as before.
Queue offsets stay, and with them the offsets of consumers. Queues and index are built by opening the new store, as
after an unclean stop; the tables of the broker are copied.
"""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from cometmq.codec.checkpoint import Checkpoint
from cometmq.codec.property_crc import fill_in, is_crc_right
from cometmq.codec.queue_entry import QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.codec.record import BLANK_TAIL_SIZE, PHYSICAL_OFFSET_AT, SYS_FLAG_AT, blank_tail
from cometmq.model.clock import Clock
from cometmq.model.errors import StoreDamaged
from cometmq.offline.broker_tables import CONFIG, for_new_store, is_table
from cometmq.offline.dledger_log import IMPORT_OTHER, DledgerStore, DledgerWalk
from cometmq.offline.findings import Finding
from cometmq.offline.log_scan import OnProgress
from cometmq.offline.new_folder import check_new, put_in_place
from cometmq.store.checkpoint import CheckpointFiles, Progress
from cometmq.store.disk import Disk
from cometmq.store.lock import AbortMarker
from cometmq.store.log_file import LogFile, log_file_name
from cometmq.store.message_store import MessageStore

_WRITTEN_AT_ONCE = 4 << 20


class DledgerImport(NamedTuple):
    """The result of an import.

    Attributes:
        records: Number of records that DLedger's files had up to the committed index.
        log_files: Number of log files written.
        findings: Entries that were left out, and a beginning that is missing.
    """

    records: int
    log_files: int
    findings: list[Finding]


def import_dledger(
    source: DledgerStore, to: str, *, clock: Clock, disk: Disk, on_progress: OnProgress
) -> DledgerImport:
    """Write the committed records and the tables of a DLedger broker to a new store directory.

    Args:
        source: The store; its broker must be stopped.
        to: The directory, which must be missing or empty. It is built beside this place and renamed when it is complete.
        clock: Clock for opening the store.
        disk: File system.
        on_progress: Called with the number of bytes of the source's log that were read.

    Raises:
        SettingsError: `to` is not empty.
        StoreDamaged: An entry up to the committed index is missing or damaged.
        OSError: A file could not be read or written.
    """
    check_new(to)
    out = f"{Path(to).absolute()}.importing"
    shutil.rmtree(out, ignore_errors=True)
    try:
        Path(out, "commitlog").mkdir(parents=True)
        result = _copy_log(source, out, disk, on_progress)
        _copy_tables(source.root, out)
        _copy_queue_starts(source, out)
        return result._replace(log_files=_complete(source, out, to, clock, disk))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


def _copy_log(
    source: DledgerStore, out: str, disk: Disk, on_progress: OnProgress
) -> DledgerImport:
    chain = source.log.chain
    for file in chain.files:
        if file.start < source.begin:
            shutil.copyfile(file.path, f"{out}/commitlog/{log_file_name(file.start)}")
            on_progress(file.end - chain.start)
    log = _NewLog(disk, f"{out}/commitlog", source.begin, chain.file_size)
    walk, first = DledgerWalk(chain, source.begin), -1
    for head, record in walk:
        if first < 0:
            first = head.number
        if head.number > source.committed:
            raise StoreDamaged(
                f"the oldest entry in {source.root} is {head.number}, after the committed index {source.committed}; "
                f"{IMPORT_OTHER}"
            )
        if record:
            log.append(record)
        if head.number >= source.committed:
            break
        on_progress(walk.position - chain.start)
    log.close()
    if walk.last is None or walk.last.number < source.committed:
        raise _damaged(source, walk)
    findings = []
    if first == 0 and source.begin == chain.start > 0:
        what = "the files before it are missing; if they are elsewhere (storePathCommitLog), link them into commitlog"
        findings.append(
            Finding("log", f"the log begins at {chain.start}", what, is_error=False)
        )
    left = sum(1 for _ in walk)
    if left:
        what = (
            f"the {left} entries after it were left out: this member did not know whether they are committed. If the "
            "group was killed, start and stop its brokers in order, and import again"
        )
        findings.append(Finding("log", f"committed index {source.committed}", what))
    return DledgerImport(log.records, 0, findings)


def _damaged(source: DledgerStore, walk: DledgerWalk) -> StoreDamaged:
    chain, at = source.log.chain, walk.position
    file = chain.find(at) or chain.files[-1]
    wanted = "the first entry" if walk.last is None else f"entry {walk.last.number + 1}"
    return StoreDamaged(
        f"{file.path}, byte {at - file.start}: {walk.fault}; {wanted} was expected, and entries up to {source.committed} are committed; {IMPORT_OTHER}"
    )


class _NewLog:
    """Writes records to new log files from a physical offset on."""

    def __init__(self, disk: Disk, folder: str, start: int, file_size: int) -> None:
        self._disk = disk
        self._folder = folder
        self._file_size = file_size
        self._file = self._new_file(start)
        self._pending = bytearray()
        self._place = start  # Physical offset at which `_pending` begins.
        self.records = 0

    def append(self, record: bytes) -> None:
        """Append a record with its new physical offset and, if its CRC of the whole record was right, a new CRC."""
        place, size = self._place + len(self._pending), len(record)
        if place + size + BLANK_TAIL_SIZE > self._file.end:
            self._pending += blank_tail(self._file.end - place)
            self._write()
            self._file.close()
            place = self._place = self._file.end
            self._file = self._new_file(place)
        moved = bytearray(record)
        has_crc = is_crc_right(record, 0, size)
        moved[PHYSICAL_OFFSET_AT:SYS_FLAG_AT] = place.to_bytes(8)
        if has_crc:
            fill_in(moved, 0, size)
        self._pending += moved
        self.records += 1
        if len(self._pending) >= _WRITTEN_AT_ONCE:
            self._write()

    def close(self) -> None:
        """Write what is pending and close the file."""
        self._write()
        self._file.close()

    def _new_file(self, start: int) -> LogFile:
        path = f"{self._folder}/{log_file_name(start)}"
        fd = self._disk.open(path, create=True)
        file = LogFile(self._disk, path, start=start, size=self._file_size, fd=fd)
        self._disk.allocate(fd, self._file_size)
        return file

    def _write(self) -> None:
        self._file.write(self._pending, self._place)
        self._place += len(self._pending)
        self._pending = bytearray()


def _copy_tables(root: str, out: str) -> None:
    target = Path(out, CONFIG)
    target.mkdir()
    for path in Path(root, CONFIG).glob("*"):
        if path.is_file() and is_table(path.name):
            content = for_new_store(path.name, path.read_bytes(), str(path))
            (target / path.name).write_bytes(content)


def _copy_queue_starts(source: DledgerStore, out: str) -> None:
    """Copy queue files that begin with an entry of a deleted message, so that queues without messages keep offsets."""
    size = source.settings.queue_file_size
    for path in sorted(Path(source.root, "consumequeue").glob("*/*/" + "[0-9]" * 20)):
        content = path.read_bytes() if _is_before(path, source.log.chain.start) else b""
        whole = len(content.rstrip(b"\0"))
        if whole:
            copy = Path(out, path.relative_to(source.root))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content[: -(-whole // QUEUE_ENTRY_SIZE) * QUEUE_ENTRY_SIZE])
            os.truncate(copy, size)


def _is_before(path: Path, start: int) -> bool:
    """Return whether the first entry of a queue file is of a record before a physical offset."""
    with path.open("rb") as file:
        head = file.read(QUEUE_ENTRY_SIZE)
    return len(head) == QUEUE_ENTRY_SIZE and QUEUE_ENTRY.unpack(head)[0] < start


def _complete(source: DledgerStore, out: str, to: str, clock: Clock, disk: Disk) -> int:
    """Build queues and index, check the whole log, put the store in its place; return the number of log files."""
    start = source.log.chain.start
    AbortMarker(disk, out).set()
    CheckpointFiles(disk, out).write(Checkpoint(), Progress(start, start, 0))
    store = MessageStore.open(out, source.settings, clock=clock, disk=disk)
    damage = store.recovery.damage
    end = store.recovery.end
    store.close()
    if damage is not None or end < source.begin:
        raise StoreDamaged(
            f"the log of {source.root}/commitlog is damaged at physical offset {end}: {damage or 'it ends there'}; "
            f"{IMPORT_OTHER}"
        )
    put_in_place(out, to)
    return len(disk.list_names(f"{to}/commitlog"))
