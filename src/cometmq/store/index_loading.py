"""Builds the index from the log: recovers it at start, extends and truncates it.

All files before a damaged one are used. After an unclean stop, unless read-only, they are judged one by one:

- A file that ends before the index time of Java's checkpoint (or at it, if full and not in ours) is on the device.
- Of the file that our own checkpoint names, as many entries are on the device as it states; slots are set back to them.
- Other files are deleted, as a Java broker does (IndexService.load of RocketMQ 5.3.3). Records are indexed again from
  where our own checkpoint ends, or if it does not cover the index, from where a Java broker's recovery begins.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from errno import EIO
from functools import partial

from cometmq.codec.index_file import INDEX_HEADER_SIZE, IndexHeader, decode_header
from cometmq.model.errors import StoreDamaged
from cometmq.store.batch import Batch, RawRecords
from cometmq.store.checkpoint import NOTHING_DONE
from cometmq.store.derived import Derived, FeedPut, Step
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import opened
from cometmq.store.index import Index
from cometmq.store.index_file import IndexFile
from cometmq.store.index_slots import EntryReader, entry_reader, mend_slots, read_slots
from cometmq.store.index_sync import IndexSync
from cometmq.store.log_end import record_at, start_before
from cometmq.store.put_aside import put_away
from cometmq.store.settings import IndexSettings

logger = logging.getLogger(__name__)

_NAME_DIGITS = 17  # yyyyMMddHHmmssSSS


class DerivedIndex(Derived):
    """The index as a structure derived from the log.

    The index hides nothing before a truncation: a key that points to no record finds no message.
    """

    def __init__(
        self, directory: StoreDirectory, index: Index, settings: IndexSettings
    ) -> None:
        self._disk = directory.checkpoints.disk
        self.index = index
        self._log = directory.log
        self._checkpoints = directory.checkpoints
        self._read_only = directory.read_only
        self._is_safe = settings.is_safe
        self._is_built = settings.is_built and not self._read_only
        self._is_gap = False  # Whether files were deleted that no checkpoint of ours covers.
        # Physical offset from which a damaged file had keys.
        self._broken_from: int | None = None
        self._is_loaded = False
        self._last_offset = -1  # Physical offset of the last record in the index,
        self._last_keys = 0  # and the number of its keys that are in the index.

    def load(self, *, is_clean: bool, log_start: int) -> int | None:
        """Load the existing files and return the physical offset from which records may be missing.

        Returns None if none are missing, or if no index is built. Unless the store is read-only, a damaged file is moved
        away with all later ones, and files that an unclean stop may have left incomplete are cut or deleted.

        Raises:
            StoreDamaged: All files, more than one, have the same size, neither 0 nor that of the settings.
            OSError: The disk failed.
        """
        self.index.files = self._files(is_clean=is_clean)
        lacking = None
        if not is_clean and not self._read_only:
            lacking = max(self._keep_trusted(self.index.files), log_start)
        if self._broken_from is not None:
            lacking = min(self._broken_from, lacking or self._broken_from)
        for file in () if self._read_only else self.index.files[-1:]:
            if file.room > 0 and file.slots is None:
                with entry_reader(self._disk, file.path, file.shape) as reader:
                    slots = read_slots(reader, file.shape)
                file.grow_again(file.header, slots, are_changed=False)
        self._note_last()
        if lacking is None or not self._is_built:
            return None
        if self._is_gap and lacking > max(self._last_offset, log_start):
            logger.warning(
                "Keys of messages between the physical offsets %d and %d may be missing in the "
                "index, as after an unclean stop of a Java broker; messageIndexSafe=true or "
                "`cometmq store repair` rebuilds the whole index",
                self._last_offset + 1,
                lacking,
            )
        return lacking

    def feed(self, batch: Batch) -> None:
        """Remember sent messages, or enter new keys of recovered or replicated records, if an index is built."""
        if not self._is_built:
            return
        if batch.raw is None:
            self.index.add(batch)
        else:
            self._enter(batch.raw)

    @property
    def feed_put(self) -> FeedPut | None:
        """Function that remembers a batch of sent messages, to enter their keys soon; None if no index is built."""
        return self.index.add if self._is_built else None

    def _enter(self, raw: RawRecords) -> None:
        last = self._last_offset
        position = raw.place_of(last)
        if position < len(raw.content):
            is_last = raw.start + position == last
            self.index.add_raw(raw, position, skip=self._last_keys if is_last else 0)

    def truncate(self, offset: int) -> Iterator[Step]:
        """Yield a step (none if read-only) that removes the keys of records at or after the log's new end.

        In an open store, `Index.is_held` must be set meanwhile.
        """
        if not self._read_only:
            yield partial(self._truncate, offset)

    def _truncate(self, offset: int) -> None:
        self.write()
        if self._is_loaded:
            files = self.index.files
            self.index.end_round([file for file in files if file.header.end_offset < offset])
        while self.index.files:
            file = self.index.files[-1]
            if file.header.end_offset < offset:
                break
            with entry_reader(self._disk, file.path, file.shape) as reader:
                count = reader.count_before(offset, file.header.index_count)
            older = self.index.files[:-1]
            self._say_gone(older, file, count)
            if count == 1:
                self.index.files = older
                self._remove([file])
                continue
            self._grow(file, count)
            break
        self._last_offset, self._last_keys = -1, 0
        self._is_loaded = True

    def delete_before(self, offset: int) -> Iterator[Step]:
        """Yield a step (if needed) that deletes files with records before an offset only, except the newest file."""
        return self.index.delete_before(offset)

    def files_before(self, offset: int) -> list[str]:
        """Return the paths of the files that `delete_before` would delete."""
        return self.index.files_before(offset)

    def sync(self) -> IndexSync:
        """Return a job that syncs the changes that the last round copied."""
        return self.index.take_sync()

    def write(self) -> None:
        """Enter and write the keys of waiting messages; raise OSError if the index cannot be written."""
        self.index.enter_waiting()
        self.index.write()
        if self.index.is_failing:
            raise OSError(EIO, "the index cannot be written", self.index.directory)

    def mark_before(self, offset: int) -> tuple[int, int, int]:
        """Write waiting keys; return what a checkpoint would record of the index if the log ended at this offset.

        Returns:
            The newest file's name as a number, the number of its next entry (both 0 without a file), and the index time
            for Java's checkpoint (ms).

        Raises:
            OSError: The index could not be written or read.
        """
        self.write()
        name, count, number = self.index.mark_before(offset)
        older = self.index.files[: max(number - 1, 0)]
        return name, count, older[-1].header.end_timestamp if older else 0

    def _say_gone(self, older: list[IndexFile], file: IndexFile, count: int) -> None:
        """During a start only, set the checkpoint back before index entries that it may cover are overwritten."""
        if self._is_loaded:
            return  # A truncation of an open store has done so already.
        times, progress = self._checkpoints.times, self._checkpoints.progress
        full_ms = older[-1].header.end_timestamp if older else 0
        self._checkpoints.write(
            replace(times, index_timestamp=min(times.index_timestamp, full_ms)),
            (progress or NOTHING_DONE)._replace(index_file=int(file.name), index_count=count),
        )

    # --- files

    def _files(self, *, is_clean: bool) -> list[IndexFile]:
        """Return the files before the first damaged one; unless read-only, move that and all later ones away.

        After an unclean stop, an empty last one that our checkpoint does not name is deleted unless read-only.

        Raises:
            StoreDamaged: All files, more than one, have the same size, neither 0 nor that of the settings.
            OSError: The disk failed.
        """
        names = self._disk.list_names(self.index.directory)
        paths = [
            f"{self.index.directory}/{name}"
            for name in names
            if len(name) == _NAME_DIGITS and name.isdigit()
        ]
        found = {path: self._look(path) for path in paths}
        self._check_setting(found)
        files: list[IndexFile] = []
        for path, (size, header) in found.items():
            if not size and path == paths[-1] and not is_clean and not self._had_keys(path):
                if not self._read_only:
                    self._disk.unlink(path)
            elif size != self.index.shape.file_size or not self._means_something(header):
                self._begin_again_at(files, path, size, paths)
                break
            else:
                file = IndexFile(self._disk, path, self.index.shape, header=header)
                files.append(file)
        return files

    def _had_keys(self, path: str) -> bool:
        """Return whether our checkpoint names this file as the newest that was on the device."""
        progress = self._checkpoints.progress or NOTHING_DONE
        return path.endswith(f"/{progress.index_file:0{_NAME_DIGITS}d}")

    def _look(self, path: str) -> tuple[int, IndexHeader]:
        """Return an index file's size in bytes (-1 for a directory) and its header; missing header bytes count as 0."""
        try:
            with opened(self._disk, path, write=False) as fd:
                head = self._disk.pread(fd, INDEX_HEADER_SIZE, 0)
                size = self._disk.size(fd)
        except IsADirectoryError:
            return -1, IndexHeader()
        header = decode_header(head.ljust(INDEX_HEADER_SIZE, b"\0"))
        if header.index_count < 1:  # IndexHeader.load: a file that was never written to.
            header = header._replace(index_count=1)
        return size, header

    def _means_something(self, header: IndexHeader) -> bool:
        """Return whether a header is possible for this index and this log."""
        shape = self.index.shape
        return (
            header.index_count <= shape.entries
            and 0 <= header.slots_used <= shape.slots
            and header.begin_offset >= 0
            and 0 <= header.end_offset <= self._log.chain.end
            and min(header.begin_timestamp, header.end_timestamp) >= 0
        )

    def _check_setting(self, found: dict[str, tuple[int, IndexHeader]]) -> None:
        """Raise StoreDamaged if all index files, more than one, have the same size, but not that of the settings (nor 0)."""
        sizes, shape = {size for size, _ in found.values()}, self.index.shape
        if len(found) > 1 and len(sizes) == 1 and not sizes & {-1, 0, shape.file_size}:
            raise StoreDamaged(
                f"{next(iter(found))} and all other index files have {sizes.pop()} bytes, but the settings "
                f"maxHashSlotNum {shape.slots} and maxIndexNum {shape.entries} require "
                f"{shape.file_size}; set them to the values with which this store was written, or move the "
                "folder index away and rebuild it with `cometmq store repair`"
            )

    def _begin_again_at(
        self, files: list[IndexFile], path: str, size: int, paths: list[str]
    ) -> None:
        """Note from where to enter the keys of a damaged file and later ones again; unless read-only, move them away."""
        self._broken_from = files[-1].header.end_offset if files else 0
        if self._read_only:
            return
        kept = put_away(self._disk, self._checkpoints.root, path)
        for newer in paths[paths.index(path) + 1 :]:
            put_away(self._disk, self._checkpoints.root, newer)
        what = (
            "is a directory"
            if size < 0
            else f"has {size} bytes, which is not the size of an index file"
        )
        logger.warning(
            "%s %s; it was moved to %s, and the index is rebuilt from physical offset %d of the log",
            path, what, kept, self._broken_from,
        )  # fmt: skip

    def _keep_trusted(self, files: list[IndexFile]) -> int:
        """Keep the index files known to be on the device, one of them perhaps in part, and delete the others.

        Return the physical offset from which records may be missing.
        """
        times = self._checkpoints.times
        progress = self._checkpoints.progress or NOTHING_DONE
        kept: list[IndexFile] = []
        is_known = progress.index_file == 0
        for file in files:
            name = int(file.name)
            is_named = name == progress.index_file
            if _is_settled(file, times.index_timestamp, is_named=is_named):
                kept.append(file)
                is_known |= is_named
            elif is_named and progress.index_count <= file.header.index_count:
                kept.append(file)
                self.index.files = kept
                self._grow(file, progress.index_count)
                is_known = True
                break
            elif name >= progress.index_file:
                break
            # An older file had been deleted by a start and was brought back by a power cut.
        self.index.files = kept
        self._remove([file for file in files if file not in kept])
        if is_known and self._checkpoints.progress is not None:
            return progress.dispatched
        self._is_gap = len(kept) < len(files)
        limit_ms = times.recovery_timestamp(with_index=self._is_safe)
        return start_before(self._log.chain, limit_ms)

    def _remove(self, files: list[IndexFile]) -> None:
        for file in files:
            logger.info("%s may be incomplete after this stop; it is rebuilt", file.path)
            file.close()
            self._disk.unlink(file.path)
        if files:
            self._disk.sync_directory(self.index.directory)

    def _grow(self, file: IndexFile, count: int) -> None:
        """Continue an index file with `count` as the number of its next entry, dropping the entries from there on."""
        with entry_reader(self._disk, file.path, file.shape) as reader:
            header = file.header
            if count < header.index_count:
                header = self._cut_header(reader, header, count)
            loaded = mend_slots(reader, file.shape, count, file.slots)
        header = header._replace(slots_used=loaded.used)
        is_cut = header != file.header
        file.grow_again(header, loaded.table, are_changed=is_cut or loaded.are_mended)

    def _cut_header(self, reader: EntryReader, header: IndexHeader, count: int) -> IndexHeader:
        """Return the header, but for the used slots, about as it was when the next entry had the number `count`."""
        if count == 1:
            older = self.index.files[:-1]
            if not older:
                return IndexHeader()
            last = older[-1].header
            return IndexHeader(
                last.end_timestamp, last.end_timestamp, last.end_offset, last.end_offset
            )
        entry = reader.entry(count - 1)
        return header._replace(
            end_offset=entry.physical_offset,
            end_timestamp=self._store_ms(entry.physical_offset)
            or header.begin_timestamp + entry.seconds * 1000,
            index_count=count,
        )

    def _store_ms(self, offset: int) -> int:
        file = self._log.chain.find(offset)
        record = record_at(file, offset) if file is not None else None
        return record.store_timestamp if record is not None else 0

    def _note_last(self) -> None:
        for file in reversed(self.index.files):
            with entry_reader(self._disk, file.path, file.shape) as reader:
                for number in range(file.header.index_count - 1, 0, -1):
                    offset = reader.entry(number).physical_offset
                    if self._last_keys == 0:
                        self._last_offset = offset
                    elif offset != self._last_offset:
                        return
                    self._last_keys += 1


def _is_settled(file: IndexFile, index_ms: int, *, is_named: bool) -> bool:
    """Return whether Java's checkpoint covers a file; one ending at its time must be full and not named in ours."""
    end_ms = file.header.end_timestamp
    return end_ms < index_ms or (end_ms == index_ms and file.room <= 0 and not is_named)
