"""The queue entries and index keys that the log requires, for example for verification, slaves and starts.

They are computed from the bytes of each simple record; nothing else of the record is kept. Compiled twins: `_walk`, and
for entries and keys that are stored `_entries` and `_index`.
"""

from collections.abc import Callable

from cometmq.kernel.keys import NOT_INDEXED, find_value, hashed_texts, joined_keys
from cometmq.kernel.layouts import INDEX_ENTRY, INDEX_KEY, QUEUE_ENTRY
from cometmq.kernel.queue_ends import has_filled
from cometmq.kernel.records import is_plain_topic, parts_of, plain_parts
from cometmq.kernel.reference import index_insert, java_hash_many
from cometmq.kernel.rows import Buffer, End, Keys, Wanted
from cometmq.model.bounded_cache import keep_short
from cometmq.model.flags import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK

KEY = INDEX_KEY.struct

_IN_A_QUEUE = (0, TRANSACTION_COMMIT)
_MULTI_QUEUES = b"INNER_MULTI_DISPATCH"
_TAGS = b"TAGS"
_PROPERTY_END = b"\2"
_HASH_MAX = 0x7FFFFFFF


def wanted_entries(
    chunk: bytes, position: int, offset: int, queues: Wanted, keys: bytearray
) -> tuple[int, int]:
    """Compute the queue entries and index keys of consecutive simple records of a piece of the log.

    A simple record is one that `plain_parts` yields, of a known topic, with only ASCII in all hashed texts, and with at
    most the next entry of its own queue: no batch, no message for further queues.

    Args:
        chunk: The piece.
        position: Position of the first record in the piece, bytes.
        offset: Physical offset of the piece, bytes.
        queues: Known queues; receives the entries.
        keys: Receives the index keys, each packed with `KEY`.

    Returns:
        The position in the piece after the simple records, and their number.
    """
    texts: list[bytes] = []
    places: list[int] = []
    count = 0
    for head, topic, _, block in plain_parts(chunk, position, offset):
        kind, runs = head[7] & TRANSACTION_MASK, queues.get(topic)
        if runs is None or head[7] & INNER_BATCH:
            break
        found = hashed_texts(topic + b"#", block) if kind != NOT_INDEXED else []
        if not topic.isascii() or not all(map(bytes.isascii, found)):
            break
        if kind in _IN_A_QUEUE:
            run, tag = runs.get(head[3]), _usual_tag(block, _MULTI_QUEUES)
            if run is None or run[0] != head[5] or tag is None:
                break
            run[1] += QUEUE_ENTRY.struct.pack(head[6], head[0], _tag_code(tag))
            run[0] += 1
        texts += found
        places += [head[6]] * len(found)
        position += head[0]
        count += 1
    keys += b"".join(map(KEY.pack, places, map(index_hash, java_hash_many(texts))))
    return position, count


def show_records(
    chunk: Buffer,
    position: int,
    offset: int,
    unusual: tuple[int, bytes, str],
    queues_of: Callable[[str], dict[int, End] | None],
    queue_type: type[End],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> tuple[int, int]:
    """Append the queue entries of consecutive usual records to the tails of their queues, and raise their end offsets.

    A usual record is one that `parts_of` yields, with a plain topic (`is_plain_topic`). It is the next of its queue, and has
    one entry, in its own queue, with no tag or an ASCII one. Body CRC and zero bytes in properties are not checked again.

    Args:
        chunk: A piece of the log that `check_records` has checked, or in which it found a record that is not simple.
        position: Position of the first record in the piece, bytes.
        offset: Physical offset of the piece, bytes.
        unusual: Bits of a sysFlag, the start of a property, and a topic, which no usual record has.
        queues_of: Returns a topic's queues by id; None if it has none.
        queue_type: Type of a usual record's queue.
        dirty: Receives queues whose tail was empty.
        tail_size_max: Size of a full tail, bytes.
        full: Receives a queue for each `tail_size_max` bytes that its tail reaches with an entry.
        watched: Receives the tags codes of queues with waiting pulls.

    Returns:
        The position in the piece after the usual records, and their number.
    """
    kinds, begin, other_topic = unusual
    pack, count = QUEUE_ENTRY.struct.pack, 0
    for head, topic, _, block in parts_of(chunk, position, offset):
        if head[7] & kinds or not is_plain_topic(topic):
            break
        name = topic.decode("ascii")
        queues = None if name == other_topic else queues_of(name)
        queue = None if queues is None else queues.get(head[3])
        if queue is None or type(queue) is not queue_type or queue.max_offset != head[5]:
            break
        tag = _usual_tag(block, begin)
        if tag is None:
            break
        code, tail = _tag_code(tag), queue.tail
        if not tail:
            dirty[queue] = None
        tail += pack(head[6], head[0], code)
        queue.next_offset = queue.max_offset = head[5] + 1
        if has_filled(len(tail), tail_size_max):
            full.append(queue)
        if queue.watched:
            watched.setdefault(queue, []).append(code)
        position += head[0]
        count += 1
    return position, count


def raw_keys(chunk: Buffer, position: int, offset: int) -> tuple[Keys, int]:
    """Return the index keys (`Keys`) of consecutive records of a piece of the log, and the position after them.

    Stops at a record with a topic that is not plain ASCII, or that `parts_of` does not yield. The arguments are
    those of `check_records`. Body CRCs and zero bytes in properties are not checked: this was done before.
    """
    texts: list[bytes] = []
    places: list[tuple[int, int]] = []
    for head, topic, _, block in parts_of(chunk, position, offset):
        if not is_plain_topic(topic):
            break
        if head[7] & TRANSACTION_MASK != NOT_INDEXED:
            found = hashed_texts(topic + b"#", block)
            texts += found
            places += [(head[6], head[10])] * len(found)
        position += head[0]
    return joined_keys(texts, places), position


def _usual_tag(block: bytes, begin: bytes) -> bytes | None:
    """Return a message's tag (empty if it has none); None if it is not ASCII or a property starts with `begin`."""
    if block.startswith(begin) or _PROPERTY_END + begin in block:
        return None
    tag = find_value(block, _TAGS) or b""
    return tag if tag.isascii() else None


@keep_short(4096)
def _tag_code(tag: bytes) -> int:
    return java_hash_many([tag])[0]


def index_hash(code: int) -> int:
    """Return the absolute value of a 32-bit hash; 0 for -2**31, which has none (IndexFile.indexKeyHashMethod)."""
    return abs(code) & _HASH_MAX


def stored_keys(
    slots: "memoryview[int]", number: int, entries: bytes
) -> tuple[bytes, int, bool]:
    """Return the keys of an index file's entries, and whether their chains and hashes are correct.

    Args:
        slots: Newest entry of each slot before these, 0 if there is none; modified.
        number: Number of the first entry.
        entries: Bytes of the entries.

    Returns:
        The keys, each packed with `KEY`; the number of slots that had no valid entry before; and whether each entry refers to
            the previous one of its chain and has no negative hash.

    Raises:
        ValueError: `entries` contains an incomplete entry.
    """
    if len(entries) % INDEX_ENTRY.size:
        raise ValueError("whole entries of an index file")
    hashes, offsets, seconds = [], [], []
    for code, offset, second, _ in INDEX_ENTRY.struct.iter_unpack(entries):
        hashes.append(code)
        offsets.append(offset)
        seconds.append(second)
    made, fresh = index_insert(slots, number, hashes, offsets, seconds)
    return b"".join(map(KEY.pack, offsets, hashes)), fresh, made == entries
