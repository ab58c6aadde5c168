"""The bytes of a member's log: where the parts sent to members may end, their content, and the group's own records."""

import orjson

from cometmq.codec.record import BLANK_TAIL_SIZE, Record, blank_tail, encode_record
from cometmq.kernel import MAGIC_BLANK, WalkEnd
from cometmq.model.clock import Clock
from cometmq.model.errors import RecordIllegal, StoreError
from cometmq.model.flags import TRANSACTION_ROLLBACK
from cometmq.replication.group.messages import Membership
from cometmq.store.message_store import MessageStore
from cometmq.store.whole_records import check_of

# Topic of the records that a leader writes at the beginning of its term and to change members. They are in no queue.
GROUP_TOPIC = "rmq_sys_broker_group"
_MARK_SIZE = 8  # Size and magic number of a record.


class GroupLogBytes:
    """Reads parts of a store's log, and appends parts of the leader's."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._check = check_of(store.settings)
        self._file_size = store.replica_side.file_size

    def cut(self, begin: int, limit: int) -> int:
        """Return the end of the last whole record from `begin` up to `limit`, or of the first record if it is longer.

        The blank end of a file is only sent together with the record after it, as a log does not end with a blank end.
        """
        if limit == self._store.positions.committed:
            return limit
        offset = end = begin
        while offset < limit:
            chunk = self._read(offset, limit - offset)
            walked, _, _, why = self._check(chunk, offset)
            offset += walked
            end = offset if walked else end
            if why is WalkEnd.BLANK:
                offset = self._file_end(offset)
            elif why is not WalkEnd.WHOLE:
                break
        return end if end > begin else self._first_end(begin)

    def _first_end(self, begin: int) -> int:
        """Return the end of the record that starts at an offset or, if a file's blank end starts there, of the next file's first one."""
        mark = self._read(begin, _MARK_SIZE)
        if int.from_bytes(mark[4:]) == MAGIC_BLANK:
            begin = self._file_end(begin)
            mark = self._read(begin, _MARK_SIZE)
        return begin + int.from_bytes(mark[:4])

    def _file_end(self, offset: int) -> int:
        return (offset // self._file_size + 1) * self._file_size

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes of a part; raise StoreError if the log lacks some, OSError if the disk failed."""
        pieces = []
        while begin < end:
            piece = self._read(begin, end - begin)
            pieces.append(piece)
            begin += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read(self, offset: int, size: int) -> bytes:
        piece = self._store.read_log(offset, size)
        if not piece:
            raise StoreError(f"the log has no bytes at physical offset {offset}")
        return bytes(piece)

    def append(self, offset: int, content: memoryview) -> int:
        """Append records or a part of a blank end at an offset; return the offset after the last appended byte.

        Raises:
            StoreError: The store accepts nothing now, or for good; or the bytes are no whole records (RecordIllegal).
        """
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
