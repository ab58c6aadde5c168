"""The index of a store: from keys to messages, in files that fill up one after the other.

    dispatch -> `add` (a note) -> `build` (hashes, entries in memory) -> `write` (files)
    a checkpoint's round -> `begin_round`, `continue_round` -> `IndexSync.run`

What a message of the straight way costs here is a note for its whole batch; keys are entered many
at a time (docs/design/0002). Everything runs on the thread that owns the store, but for what says
otherwise.
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

# Keys wait until there are this many messages, or so much log; a tick enters them anyhow. More at
# a time is hardly cheaper, and 512 messages take the loop less than a millisecond.
WAITING_MESSAGES_MAX = 512
WAITING_BYTES_MAX = 1 << 20


class Index:
    """The index files of a store.

    Attributes:
        directory: where they are.
        shape: their sizes.
        files: the oldest first; replaced, never changed, so any thread may take it.
        on_error: told when the index cannot be written; it is kept in memory and tried again.
        on_written: told when it could be written.
        is_failing: it could not be written the last time.
        is_held: a thread cuts it: nothing is entered, and who searches finds what there is.
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
        self._keys: Keys = array("q")  # Hashed, and not in a file yet.
        self.is_failing = False
        self.is_held = False
        self._is_directory_fresh = False
        self._sync: IndexSync | None = None
        self._copying: Iterator[SlotRun] | None = None

    # --- adding

    def add(self, batch: Batch) -> None:
        """A put has become visible; its keys can be found from the next `build` on."""
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
        """Enter and write the keys of records that came as bytes.

        Args:
            raw: the records.
            position: where in their bytes the first stands that is wanted.
            skip: so many of its keys are there.
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
        """Enter all keys that wait."""
        waiting, self._waiting, self._waiting_count = self._waiting, [], 0
        self._keys += index_keys(waiting)
        self._enter()

    def enter(
        self, hashes: Sequence[int], offsets: Sequence[int], times: Sequence[int]
    ) -> None:
        """Enter keys whose hashes are known, behind all others.

        Args:
            hashes: Java's hash of each "topic#key".
            offsets: physical offset of each key's record, bytes; in order.
            times: store time of each key's record, ms.
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
        """Put the keys into files, as many as it takes.

        Raises:
            OSError: a file could not be made; the keys that are left are kept.
        """
        while self._keys:
            file = self._growing()
            part = self._keys[: file.room * KEY_NUMBERS]
            file.insert(part)
            del self._keys[: len(part)]

    def _growing(self) -> IndexFile:
        """The newest file, or a new one behind it when it is full.

        Raises:
            OSError: it could not be made.
        """
        last = self.files[-1] if self.files else None
        if last is not None and last.room > 0:
            return last
        header = IndexHeader()
        if last is not None:
            # IndexService.getAndCreateLastIndexFile: a new file begins where the last one ends.
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
        """The time as yyyyMMddHHmmssSSS, as Java names them; behind all others, come what may."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000).astimezone()
        name = f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}"
        if self.files and name <= self.files[-1].name:
            # Two in a millisecond, or a clock set back: files are ordered by their names.
            name = f"{int(self.files[-1].name) + 1:017d}"
        return name

    # --- writing

    @property
    def has_work(self) -> bool:
        """Whether something waits to be entered, or could not be written."""
        return bool(self._waiting or self._keys or self.is_failing)

    def tick(self) -> None:
        """Enter what waits and write what has been entered; not while it is held."""
        if not self.is_held:
            self.enter_waiting()
            self.write()

    def enter_waiting(self) -> None:
        """Enter what waits, if anything does."""
        if self._waiting or self._keys:
            self.build()

    def write(self) -> None:
        """Append the new entries to their files; one that fails keeps them for the next time."""
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
        """The newest file's name as a number, and how many entries are in it; (0, 0): no file."""
        if not self.files:
            return 0, 0
        file = self.files[-1]
        return int(file.name), file.header.index_count

    def begin_round(self) -> None:
        """Begin to copy what has changed; what `mark` said before will be on the device."""
        # One that no checkpoint has taken is added to: what it copied counts as unchanged.
        sync = self._sync = self._sync or IndexSync(self._disk, self.directory)
        sync.is_directory_fresh |= self._is_directory_fresh
        self._is_directory_fresh = False
        self._copying = self._copies(sync)

    @property
    def is_in_round(self) -> bool:
        """Whether a round has begun and is not through."""
        return self._copying is not None

    def continue_round(self) -> bool:
        """Copy a part; True when all is copied, and the entries behind it are in their files."""
        if self._copying is not None and next(self._copying, None) is None:
            self.write()
            if not self.is_failing:
                self._copying = None
        return self._copying is None

    def end_round(self, kept: Sequence[IndexFile]) -> None:
        """Let what was copied of files go that are not among these; they are copied again.

        Raises:
            OSError: the index cannot be written.
        """
        while not self.continue_round():
            if self.is_failing:
                raise OSError(EIO, "the index cannot be written", self.directory)
        if self._sync is not None:
            self._sync.files = [part for part in self._sync.files if part[0] in kept]

    def mark_before(self, physical_offset: int) -> tuple[int, int, int]:
        """The `mark` that the index would have if the log ended here, and the number of files left."""
        for number, file in reversed([*enumerate(self.files, 1)]):
            with entry_reader(self._disk, file.path, file.shape) as reader:
                count = reader.count_before(physical_offset, file.header.index_count)
            if count > 1:
                return int(file.name), count, number
        return 0, 0, 0

    def _copies(self, sync: IndexSync) -> Iterator[SlotRun]:
        """Gather each piece in `sync`, and give it."""
        for file in self.files:
            if file.slots is not None and file.is_changed:
                runs: list[SlotRun] = []
                sync.files.append((file, file.header, runs))
                for run in file.changed_runs():
                    runs.append(run)
                    yield run

    def take_sync(self) -> IndexSync:
        """Take the changes that the last round has copied."""
        sync, self._sync = self._sync, None
        return sync or IndexSync(self._disk, self.directory)

    def write_all(self) -> None:
        """A whole round at once.

        Raises:
            OSError: something could not be written.
        """
        self.on_error = _raise
        self.build()
        while not self.continue_round():
            pass
        self.begin_round()
        while not self.continue_round():
            pass

    def full_ms(self) -> int:
        """Up to which store time the index is in full files, which is what Java's checkpoint says."""
        return max(
            (file.header.end_timestamp for file in self.files if file.room <= 0), default=0
        )

    # --- asking and deleting

    def search(self, topic: str, key: str, *, begin_ms: int, end_ms: int) -> IndexSearch:
        """Prepare a search.

        Args:
            topic: of the messages.
            key: a word of their KEYS, or their unique key.
            begin_ms: from this store time on.
            end_ms: up to this store time.
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
        """Remove files all of whose records lie before an offset; the newest one stays.

        Follows IndexService.deleteExpiredFile of RocketMQ 5.3.3. See `cometmq.store.derived`.
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
        """The files that `delete_before` would remove."""
        return [file.path for file in self._expired(physical_offset)]

    def _expired(self, physical_offset: int) -> list[IndexFile]:
        older = self.files[:-1]
        return list(takewhile(lambda file: file.header.end_offset < physical_offset, older))

    def close(self) -> None:
        """Close every file; nothing is written."""
        for file in self.files:
            file.close()


def _raise(error: OSError) -> None:
    raise error


def _nothing() -> None:
    """Nobody wants to be told."""
