"""The entries that the log asks for in queues and index: what verification, slaves and starts spend their time on.

Of each plain record its queue entry and its index keys are made from its bytes; nothing else of it is kept.
Compiled: `_walk`, and for those that are shown and entered `_entries` and `_index`.
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
    """Take plain records from a piece of the log, as far as they go, and note what they ask for.

    Plain is what `plain_parts` gives, of a known topic, where all that is hashed is ASCII, and which
    asks for its own queue's next entry at most: no batch, no message for further queues.

    Args:
        chunk: the piece.
        position: where in it the first record begins, bytes.
        offset: physical offset of the piece, bytes.
        queues: the known ones; entries are appended there.
        keys: index keys are appended here, each as `KEY` packs it.

    Returns:
        The place in the piece where plain records end, and how many there were.
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
    """Append the queue entries of usual records to their queues' tails, as far as they go.

    Usual is a record with a plain topic and plain parts that is the next of its queue and has one entry, of its own queue, with
    a tag of ASCII. Neither its body nor its properties are checked again.

    Args:
        chunk: a piece of the log which `check_records` has passed over, or found a record in that is not plain.
        position: where in it the first record begins, bytes.
        offset: physical offset of the piece, bytes.
        unusual: bits of a sysFlag, the begin of a property, and a topic, which no usual record has.
        queues_of: a topic's queues by their numbers; None: it has none.
        queue_type: of a usual record's queue.
        dirty: gets queues whose tail was empty.
        tail_size_max: bytes.
        full: gets a queue for each `tail_size_max` bytes that its tail reaches with an entry.
        watched: gets the tags codes of queues that somebody waits for.

    Returns:
        The place in the piece where usual records end, and how many there were.
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
    """The keys of records of a piece of the log, as far as topic and parts are plain, and the place in it where these end.

    The arguments are those of `check_records`, which has passed over the piece: neither bodies nor properties are checked again.
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
    """A message's tag, empty where it has none; None where it is not ASCII, or a property begins as no usual one does."""
    if block.startswith(begin) or _PROPERTY_END + begin in block:
        return None
    tag = find_value(block, _TAGS) or b""
    return tag if tag.isascii() else None


@keep_short(4096)
def _tag_code(tag: bytes) -> int:
    return java_hash_many([tag])[0]


def index_hash(code: int) -> int:
    """Math.abs, and 0 for the one number that has none (IndexFile.indexKeyHashMethod)."""
    return abs(code) & _HASH_MAX


def stored_keys(
    slots: "memoryview[int]", number: int, entries: bytes
) -> tuple[bytes, int, bool]:
    """The keys of an index file's entries, and whether their chains are what they must be.

    Args:
        slots: the newest entry of each slot before these, 0 where there is none; changed.
        number: of the first of these.
        entries: their bytes.

    Returns:
        The keys, each as `KEY` packs it; how many slots had no entry before; and whether each entry
        leads to the one before it.

    Raises:
        ValueError: it is not a number of whole entries.
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
