"""Finds the log that a DLedger broker of RocketMQ has written (`codec.dledger`), and reads its entries."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from cometmq.codec.dledger import (
    END_MAGIC,
    ENTRY_HEAD_SIZE,
    NOOP_MAGIC,
    NORMAL_MAGIC,
    EntryHead,
    decode_committed_index,
    decode_entry_head,
)
from cometmq.codec.record import PHYSICAL_OFFSET_AT, SYS_FLAG_AT
from cometmq.codec.record_check import NoRecordError, check_record
from cometmq.model.errors import CodecError, SettingsError, StoreDamaged, StoreLocked
from cometmq.offline.delay_levels import find_delay_levels
from cometmq.offline.found import with_found_sizes
from cometmq.store.commitlog import CommitLog
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Disk, read_file
from cometmq.store.file_chain import FileChain
from cometmq.store.lock import is_locked
from cometmq.store.log_file import LogFile
from cometmq.store.opening import DLEDGER_PREFIX, message_parts, refuse, rocksdb_parts
from cometmq.store.settings import StoreSettings

_PIECE_SIZE = 4 << 20
IMPORT_OTHER = "import the directory of another member of the group instead"


@dataclass(frozen=True, slots=True)
class DledgerStore:
    """The store directory of a DLedger broker, opened for reading.

    Attributes:
        root: The directory (storePathRootDir).
        settings: The sizes of its files, and its delay levels.
        log: Its log files: ordinary ones from before it became a DLedger broker, if any, then those of DLedger.
        begin: Physical offset at which DLedger's files begin.
        committed: Index of the last committed entry that the member knew.
    """

    root: str
    settings: StoreSettings
    log: CommitLog
    begin: int
    committed: int

    def close(self) -> None:
        """Close the files of the log."""
        self.log.close()


def find_dledger(root: str, settings: StoreSettings | None, disk: Disk) -> DledgerStore:
    """Examine the store directory of a stopped DLedger broker and open its log for reading.

    Args:
        root: The directory (storePathRootDir).
        settings: The broker's settings, for what its files do not show; None if they are unknown.
        disk: File system.

    Raises:
        SettingsError: The directory is not one of a DLedger broker, or has no committed entry.
        StoreLocked: A broker has the directory open.
        StoreDamaged: A log file is missing or has a wrong size, the checkpoint is missing or damaged, or a part of the
            store is not supported.
        OSError: The disk failed.
    """
    folder = _folder(root, disk)
    names = disk.list_names(root)
    parts = message_parts(names, lambda path: disk.exists(f"{root}/{path}"))
    others = (part for part in parts if not part.path.startswith(DLEDGER_PREFIX))
    refuse(root, chain(others, rocksdb_parts(disk, root)))
    if is_locked(disk, root):
        raise StoreLocked(f"{root} is in use: a broker has locked it; stop the broker first")
    committed = _committed(f"{folder}/checkpoint", disk)
    data = f"{folder}/data"
    if not any(name.isdigit() for name in disk.list_names(data)):
        raise StoreDamaged(f"{data} has no log file; {IMPORT_OTHER}")
    paths = (f"{root}/commitlog", data)
    settings = replace(settings or StoreSettings(), commitlog_paths=paths)
    try:
        settings = with_found_sizes(root, settings, disk)
        directory = StoreDirectory(root, settings, disk=disk, read_only=True)
        log = directory.log
        log.chain.load(read_only=True)
    except StoreDamaged as error:
        raise StoreDamaged(f"{error}; or {IMPORT_OTHER}") from error
    levels = find_delay_levels(disk, directory.queues.files, log, settings.delay_levels_ms)
    of_dledger = (file.start for file in log.chain.files if file.path.startswith(f"{data}/"))
    begin = next(of_dledger, log.chain.end)
    settings = replace(settings, delay_levels_ms=levels, commitlog_paths=())
    return DledgerStore(root, settings, log, begin, committed)


def _folder(root: str, disk: Disk) -> str:
    """Return the path of DLedger's own folder in a store; SettingsError unless there is one, with a folder `data`."""
    found = [name for name in disk.list_names(root) if name.startswith(DLEDGER_PREFIX)]
    if len(found) > 1:
        raise SettingsError(
            f"{root} has the logs of several members ({', '.join(found)}): leave only the one to import"
        )
    if not found:
        is_inner = disk.exists(f"{root}/data") and disk.exists(f"{root}/checkpoint")
        raise SettingsError(
            f"{root} is DLedger's own folder; name the directory that contains it (storePathRootDir)"
            if is_inner
            else f"{root} has no folder dledger-<dLegerSelfId>, so it is not the store of a DLedger broker; name its "
            "storePathRootDir"
        )
    folder = f"{root}/{found[0]}"
    if not disk.exists(f"{folder}/data"):
        raise SettingsError(
            f"{folder} has no folder data; if the log is elsewhere (storePathDLedgerCommitLog), make data a symbolic "
            "link to it"
        )
    return folder


def _committed(path: str, disk: Disk) -> int:
    advice = f"start the broker and stop it in order, which writes it, or {IMPORT_OTHER}"
    try:
        committed = decode_committed_index(read_file(disk, path))
    except FileNotFoundError:
        raise StoreDamaged(
            f"{path} is missing, so which entries are committed is unknown; {advice}"
        ) from None
    except CodecError as error:
        raise StoreDamaged(f"{path} is damaged: {error}; {advice}") from error
    if committed < 0:
        raise SettingsError(f"{path} records no committed entry; {IMPORT_OTHER}")
    return committed


class DledgerWalk:
    """Reads entries in order, each checked, up to the first that is not valid.

    Attributes:
        position: Position of the next entry in the log.
        last: Header of the last entry; None before the first one.
        fault: What is wrong with the entry at `position`; empty while there was none.
    """

    def __init__(self, files: FileChain, start: int) -> None:
        self._files = files
        self.position = start
        self.last: EntryHead | None = None
        self.fault = ""

    def __iter__(self) -> Iterator[tuple[EntryHead, bytes]]:
        """Yield (header, record) for each entry; the record is b"" for a no-op entry, which has none."""
        while not self.fault:
            file = self._files.find(self.position)
            if file is None:
                self.fault = "the log ends there"
                return
            yield from self._in_file(file)

    def _in_file(self, file: LogFile) -> Iterator[tuple[EntryHead, bytes]]:
        piece, base = b"", self.position
        while self.position < file.end:
            at = self.position - base
            if at + ENTRY_HEAD_SIZE > len(piece):
                piece, base, at = self._piece(file, 0), self.position, 0
            head = decode_entry_head(piece, at)
            if head.magic == END_MAGIC and head.size == file.end - self.position:
                self.position = file.end
                return
            self.fault = self._head_fault(head, file.end - self.position)
            if self.fault:
                return
            if at + head.size > len(piece):
                piece, base, at = self._piece(file, head.size), self.position, 0
            record = piece[at + ENTRY_HEAD_SIZE : at + head.size]
            if head.magic == NORMAL_MAGIC:
                self.fault = _record_fault(record, self.position + ENTRY_HEAD_SIZE)
                if self.fault:
                    return
            self.last = head
            self.position += head.size
            yield head, record if head.magic == NORMAL_MAGIC else b""

    def _piece(self, file: LogFile, size: int) -> bytes:
        return file.read(self.position, min(max(size, _PIECE_SIZE), file.end - self.position))

    def _head_fault(self, head: EntryHead, left: int) -> str:
        if not any(head):
            return "there is no entry"
        if head.magic not in (NORMAL_MAGIC, NOOP_MAGIC):
            return f"the type of the entry is {head.magic}, which is not one of a record"
        if head.body_size < 0 or head.size != head.body_size + ENTRY_HEAD_SIZE:
            return f"the entry has {head.size} bytes, but its body {head.body_size}"
        if head.size > left:
            return f"the entry has {head.size} bytes, but its file only {left} more"
        if head.position != self.position:
            return f"the entry records the position {head.position}"
        last = self.last
        if last is not None and (head.number != last.number + 1 or head.term < last.term):
            return (
                f"entry {head.number} of term {head.term} follows entry {last.number} of term "
                f"{last.term}"
            )
        return ""


def _record_fault(record: bytes, place: int) -> str:
    """Return what is wrong with the record of an entry, which should be at a physical offset; empty if it is valid."""
    try:
        size = check_record(record, 0)
    except NoRecordError as error:
        return f"its record is damaged: {error}"
    offset = int.from_bytes(record[PHYSICAL_OFFSET_AT:SYS_FLAG_AT], signed=True)
    if size != len(record) or offset != place:
        return f"its record has {size} bytes of {len(record)} and the physical offset {offset}"
    return ""
