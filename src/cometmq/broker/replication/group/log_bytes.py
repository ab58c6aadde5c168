"""The bytes of a member's log: where the parts sent to members may end, their content, and the group's own records."""

import orjson

from cometmq.codec.record import BLANK_TAIL_SIZE, Record, blank_tail, encode_record
from cometmq.kernel import MAGIC_BLANK, record_places
from cometmq.model.clock import Clock
from cometmq.model.errors import RecordIllegal, StoreError
from cometmq.model.flags import TRANSACTION_ROLLBACK
from cometmq.replication.group.messages import VOTERS_MAX, Membership
from cometmq.store.disk import Buffer
from cometmq.store.message_store import MessageStore

# Topic of the records that a leader writes at the beginning of its term and to change members. They are in no queue.
GROUP_TOPIC = "rmq_sys_broker_group"
_MARK_SIZE = 8  # Size and magic number of a record.
# Bytes that the system reads at once for a member that is far behind: half of its window (`GroupTiming.window_size`).
READ_AHEAD_SIZE = 4 << 20
# Bytes that are read on the loop if they are still not in memory when they are asked for again, unless a record is longer.
_BLOCKING_SIZE_MAX = 64 << 10


class GroupLogBytes:
    """Reads parts of a store's log, and appends parts of the leader's."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._side = store.replica_side
        self._clock = clock
        self._file_size = self._side.file_size
        # Offsets of bytes that the system was to read, and that no member has asked for again: one of each other member.
        self._asked: set[int] = set()
        self._chunks: dict[
            int, Buffer
        ] = {}  # Bytes of the parts that were cut, until `read`, by offset.

    def cut(self, begin: int, limit: int) -> int:
        """Return the end of the last whole record of a file from `begin` up to `limit`, or of the first record if it is longer.

        The blank end of a file is only sent together with the record after it, as a log does not end with a blank end. If
        the bytes are not in memory, the system starts to read them, and this returns `begin`; the next call for `begin`
        waits for at most 64 KiB or one record.
        """
        if limit == self._store.positions.committed:
            return limit
        chunk = self._side.read_nowait(begin, limit - begin)
        if chunk is None:
            if begin not in self._asked:
                if len(self._asked) >= VOTERS_MAX:
                    self._asked.clear()  # Those of members that have left or restarted.
                self._asked.add(begin)
                self._side.will_need(begin, READ_AHEAD_SIZE)
                return begin
            chunk = self._read(begin, min(limit - begin, _BLOCKING_SIZE_MAX))
        self._asked.discard(begin)
        places, size = record_places(chunk, 0, len(chunk))
        last = memoryview(places).cast("q")[-1] if places else 0
        if int.from_bytes(chunk[last + 4 : last + _MARK_SIZE]) == MAGIC_BLANK:
            size = last
        if not size:
            return self._first_end(begin)
        self._chunks[begin] = memoryview(chunk)[:size]
        return begin + size

    def _first_end(self, begin: int) -> int:
        """Return the end of the record that starts at an offset or, if a file's blank end starts there, of the next file's first one."""
        mark = self._read(begin, _MARK_SIZE)
        if int.from_bytes(mark[4:]) == MAGIC_BLANK:
            begin = self._file_end(begin)
            mark = self._read(begin, _MARK_SIZE)
        return begin + int.from_bytes(mark[:4])

    def _file_end(self, offset: int) -> int:
        return (offset // self._file_size + 1) * self._file_size

    def read(self, begin: int, end: int) -> Buffer:
        """Return the bytes of a part, maybe as a view of the log; raise StoreError if it lacks some, OSError if the disk failed."""
        chunk = self._chunks.pop(begin, None)
        if chunk is not None and len(chunk) == end - begin:
            return chunk
        pieces = []
        while begin < end:
            piece = self._read(begin, end - begin)
            pieces.append(piece)
            begin += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read(self, offset: int, size: int) -> Buffer:
        piece = self._side.read_nowait(offset, size) or self._store.read_log(offset, size)
        if not piece:
            raise StoreError(f"the log has no bytes at physical offset {offset}")
        return piece

    def append(self, offset: int, content: memoryview) -> int:
        """Append records or a part of a blank end at an offset; return the offset after the last appended byte.

        Raises:
            StoreError: The store accepts nothing now, or for good; or the bytes are no whole records (RecordIllegal).
        """
        self._chunks.clear()  # The log may have been truncated since they were cut.
        end = self._store.append_raw(offset, content)
        if end == offset:
            raise RecordIllegal(f"the bytes at physical offset {offset} are no whole record")
        return end

    def group_record(self, offset: int, group: str, term: int, membership: Membership) -> bytes:
        """Return an encoded record of a leader's term and the members, for an offset, after a blank end if needed.

        The record is valid for every program that reads the log. It is marked as rolled back, so that none puts it into a
        queue.
        """
        values = {
            "group": group,
            "term": term,
            "voters": membership.voters,
            "learners": membership.learners,
            "places": membership.places,
        }
        now_ms = self._clock.now_ms()
        record = Record(
            topic=GROUP_TOPIC, body=orjson.dumps(values, default=tuple), sys_flag=TRANSACTION_ROLLBACK,
            born_timestamp=now_ms, store_timestamp=now_ms, physical_offset=offset,
        )  # fmt: skip
        content = encode_record(record)
        left = self._file_end(offset) - offset
        if len(content) + BLANK_TAIL_SIZE <= left:
            return content
        after = encode_record(record._replace(physical_offset=offset + left))
        return blank_tail(left).ljust(left, b"\0") + after
