"""The index of a store: finds messages by key, in files that are filled one after the other.

    dispatch -> `add` (remembers a batch) -> `build` (hashes, entries in memory) -> `write` (files)
    a checkpoint's round -> `begin_round`, `continue_round` -> `IndexSync.run`

On the fast path of sends, the index mostly only remembers each batch. Keys are entered later, many at a time
(docs/design/0002). Everything runs on the thread that owns the store, except the steps of a truncation or deletion, and
where a docstring says otherwise.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from errno import EIO
from functools import partial
from itertools import takewhile

from cometmq.codec.index_file import IndexHeader
from cometmq.codec.record import decode_record
from cometmq.kernel import index_keys, java_hash_many, raw_keys, record_keys
from cometmq.kernel.keys import KEY_NUMBERS, keys_of
from cometmq.kernel.rows import Keys
from cometmq.model.clock import Clock
from cometmq.store.batch import Batch, RawRecords
from cometmq.store.derived import Step
from cometmq.store.disk import Disk
from cometmq.store.index_file import IndexFile, IndexShape, SlotRun
from cometmq.store.index_search import IndexSearch, IndexView
from cometmq.store.index_slots import entry_reader
from cometmq.store.index_sync import IndexSync

# Keys are entered once this many messages or log bytes are waiting, and at every tick. Larger batches are hardly
# cheaper per key, and 512 messages take less than a millisecond of the loop.
WAITING_MESSAGES_MAX = 512
WAITING_BYTES_MAX = 1 << 20


class Index:
    """The index files of a store.

    Attributes:
        directory: Path of the index files.
        shape: Number of slots and entries of a file.
        files: Index files, oldest first. The list is replaced, never changed, so any thread may use it.
        on_error: Called with the OSError if a file cannot be made or written; the keys stay in memory and are retried.
        on_written: Called when everything could be written again after an error.
        is_failing: Whether entering or writing keys failed and has not succeeded since.
        is_held: Whether the log is being truncated. Ticks and searches enter no keys then.
    """

    def __init__(self, disk: Disk, directory: str, shape: IndexShape, *, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self.directory = directory
        self.shape = shape
        self.files: list[IndexFile] = []
        self.on_error: Callable[[OSError], None] = _raise
        self.on_written: Callable[[], None] = _nothing
        self._waiting: list[Batch] = []
        self._waiting_count = 0
        self._waiting_from = 0
        self._keys: Keys = array("q")  # Hashed keys that are not in a file yet.
        self.is_failing = False
        self.is_held = False
        self._is_directory_fresh = False
        self._sync: IndexSync | None = None
        self._copying: Iterator[SlotRun] | None = None

    # --- adding

    def add(self, batch: Batch) -> None:
        """Remember a batch for `build`, which enters its keys; run `build` at once if 512 messages or 1 MiB wait."""
        assert not self.is_held
        if not self._waiting:
            self._waiting_from = batch.start
        self._waiting.append(batch)
        columns = batch[6]
        self._waiting_count += len(batch[2]) if columns is None else columns.count
        if (
            self._waiting_count >= WAITING_MESSAGES_MAX
            or batch[0] - self._waiting_from >= WAITING_BYTES_MAX
        ):
            self.build()

    def add_raw(self, raw: RawRecords, position: int, *, skip: int) -> None:
        """Enter the keys of records that were received as bytes, and write them; an OSError is passed to `on_error`.

        Args:
            raw: The records.
            position: Position of the first wanted record in their bytes.
            skip: Number of keys of that record that are in the index already.
        """
        if self._waiting:
            self.build()
        content, before = raw.content, len(self._keys)
        while position < len(content):
            found, position = raw_keys(content, position, raw.start)
            self._keys += found
            if position < len(content):
                record = decode_record(content, position)
                self._keys += record_keys((record,))
                position += record.store_size
        del self._keys[before : before + skip * KEY_NUMBERS]
        self._enter()
        self.write()

    def build(self) -> None:
        """Hash the keys of waiting messages and insert them into the files in memory; pass an OSError to `on_error`."""
        waiting, self._waiting, self._waiting_count = self._waiting, [], 0
        self._keys += index_keys(waiting)
        self._enter()

    def enter(
        self, hashes: Sequence[int], offsets: Sequence[int], times: Sequence[int]
    ) -> None:
        """Enter keys with known hashes after those entered before; an OSError is passed to `on_error`.

        Args:
            hashes: Java's hash of each "topic#key".
            offsets: Physical offset of each key's record in bytes, ascending.
            times: Store time of each key's record, ms.
        """
        self._keys += keys_of(hashes, offsets, times)
        self._enter()

    def _enter(self) -> None:
        if self._keys:
            try:
                self._insert()
            except OSError as error:
                self._failed(error)

    def _insert(self) -> None:
        """Insert the waiting keys into files, creating as many as needed; on OSError the remaining keys are kept."""
        while self._keys:
            file = self._growing()
            part = self._keys[: file.room * KEY_NUMBERS]
            file.insert(part)
            del self._keys[: len(part)]

    def _growing(self) -> IndexFile:
        """Return the newest file, or a new one if that is full or missing; raise OSError if it cannot be created."""
        last = self.files[-1] if self.files else None
        if last is not None and last.room > 0:
            return last
        header = IndexHeader()
        if last is not None:
            # As in IndexService.getAndCreateLastIndexFile, a new file begins where the previous one ends.
            end_ms, end = last.header.end_timestamp, last.header.end_offset
            header = IndexHeader(end_ms, end_ms, end, end)
        self._disk.make_directory(self.directory)
        file = IndexFile(
            self._disk, f"{self.directory}/{self._new_name()}", self.shape, header=header
        )
        file.make()
        self._is_directory_fresh = True
        self.files = [*self.files, file]
        return file

    def _new_name(self) -> str:
        """Return the local time as yyyyMMddHHmmssSSS, as Java does, or the newest file's name plus 1 if that is higher."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000).astimezone()
        name = f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}"
        if self.files and name <= self.files[-1].name:
            # Two files in one millisecond, or a clock set back: the order of files is that of their names.
            name = f"{int(self.files[-1].name) + 1:017d}"
        return name

    # --- writing

    @property
    def has_work(self) -> bool:
        """Whether keys wait to be entered, or could not be written."""
        return bool(self._waiting or self._keys or self.is_failing)

    def tick(self) -> None:
        """Enter the keys of waiting messages and write new entries to files, unless the log is being truncated."""
        if not self.is_held:
            self.enter_waiting()
            self.write()

    def enter_waiting(self) -> None:
        """Enter the keys of waiting messages, and those that an earlier error left, if there are any."""
        if self._waiting or self._keys:
            self.build()

    def write(self) -> None:
        """Append new entries to their files; on failure call `on_error`, and keep the entries for the next attempt."""
        try:
            for file in self.files:
                file.write_entries()
        except OSError as error:
            self._failed(error)
        else:
            if self.is_failing and not self._keys:
                self.is_failing = False
                self.on_written()

    def _failed(self, error: OSError) -> None:
        self.is_failing = True
        self.on_error(error)

    # --- checkpoints

    def mark(self) -> tuple[int, int]:
        """Return the newest index file's name as a number and the number of its next entry; (0, 0) without a file."""
        if not self.files:
            return 0, 0
        file = self.files[-1]
        return int(file.name), file.header.index_count

    def begin_round(self) -> None:
        """Begin a round of copying changed hash slots; its sync brings all up to the present `mark` to the device."""
        # A previous round that no checkpoint used is extended, because its slots count as unchanged.
        sync = self._sync = self._sync or IndexSync(self._disk, self.directory)
        sync.is_directory_fresh |= self._is_directory_fresh
        self._is_directory_fresh = False
        self._copying = self._copies(sync)

    @property
    def is_in_round(self) -> bool:
        """Whether a round of copying changed slots is in progress."""
        return self._copying is not None

    def continue_round(self) -> bool:
        """Copy the next changed hash slots in memory; return True if the round is over: all are copied and entries written."""
        if self._copying is not None and next(self._copying, None) is None:
            self.write()
            if not self.is_failing:
                self._copying = None
        return self._copying is None

    def end_round(self, kept: Sequence[IndexFile]) -> None:
        """Finish a round, if any, and drop the copies for files that are not in `kept`; raise OSError if writing fails."""
        while not self.continue_round():
            if self.is_failing:
                raise OSError(EIO, "the index cannot be written", self.directory)
        if self._sync is not None:
            self._sync.files = [part for part in self._sync.files if part[0] in kept]

    def mark_before(self, physical_offset: int) -> tuple[int, int, int]:
        """Return the `mark` for a log that ended at an offset, and the number of files then; may block or raise OSError."""
        for number, file in reversed([*enumerate(self.files, 1)]):
            with entry_reader(self._disk, file.path, file.shape) as reader:
                count = reader.count_before(physical_offset, file.header.index_count)
            if count > 1:
                return int(file.name), count, number
        return 0, 0, 0

    def _copies(self, sync: IndexSync) -> Iterator[SlotRun]:
        for file in self.files:
            if file.slots is not None and file.is_changed:
                runs: list[SlotRun] = []
                sync.files.append((file, file.header, runs))
                for run in file.changed_runs():
                    runs.append(run)
                    yield run

    def take_sync(self) -> IndexSync:
        """Return the changes that the last round copied, and forget them."""
        sync, self._sync = self._sync, None
        return sync or IndexSync(self._disk, self.directory)

    def write_all(self) -> None:
        """Enter and write all waiting keys, and copy all changed slots for the last sync; failures raise OSError."""
        self.on_error = _raise
        self.build()
        while not self.continue_round():
            pass
        self.begin_round()
        while not self.continue_round():
            pass

    def full_ms(self) -> int:
        """Return the store time (ms) up to which full index files reach, as in Java's checkpoint; 0 without any."""
        return max(
            (file.header.end_timestamp for file in self.files if file.room <= 0), default=0
        )

    # --- asking and deleting

    def search(self, topic: str, key: str, *, begin_ms: int, end_ms: int) -> IndexSearch:
        """Enter and write keys of waiting messages, unless the log is being truncated; return a prepared search by key.

        Args:
            topic: Topic of the messages.
            key: A word of their KEYS property, or their unique key.
            begin_ms: Earliest store time, ms since 1970.
            end_ms: Latest store time, ms since 1970.
        """
        self.tick()
        java_hash = java_hash_many([f"{topic}#{key}".encode()])[0]
        wanted = abs(java_hash) & 0x7FFFFFFF
        slot = wanted % self.shape.slots
        return IndexSearch(
            self._disk,
            [
                IndexView(
                    file.path, file.header, None if file.slots is None else file.slots[slot]
                )
                for file in self.files
            ],
            key_hash=wanted,
            slot_count=self.shape.slots,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    def delete_before(self, physical_offset: int) -> Iterator[Step]:
        """Yield a step (if needed) that deletes the files with records before an offset only, except the newest file.

        Follows IndexService.deleteExpiredFile of RocketMQ 5.3.3. For the yielded steps see `cometmq.store.derived`.
        """
        expired = self._expired(physical_offset)
        if not expired:
            return
        removed: list[IndexFile] = []
        yield partial(self._unlink, expired, removed)
        for file in removed:
            file.close()
        self.files = [file for file in self.files if file not in removed]

    def _unlink(self, expired: Sequence[IndexFile], removed: list[IndexFile]) -> None:
        for file in expired:
            self._disk.unlink(file.path)
            removed.append(file)

    def files_before(self, physical_offset: int) -> list[str]:
        """Return the paths that `delete_before` would delete."""
        return [file.path for file in self._expired(physical_offset)]

    def _expired(self, physical_offset: int) -> list[IndexFile]:
        older = self.files[:-1]
        return list(takewhile(lambda file: file.header.end_offset < physical_offset, older))

    def close(self) -> None:
        """Close all files without writing."""
        for file in self.files:
            file.close()


def _raise(error: OSError) -> None:
    raise error


def _nothing() -> None:
    """Do nothing; the default callback."""
