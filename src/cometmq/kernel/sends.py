"""The loops of the send path, in plain Python: what each send, record, queue entry and answer costs.

They work on tuples, bytes and ints, so that the compiled twin (`_sends.pyx`, `_packing.pyx` and others) can take their place;
this is what it means. The tuples are those of `cometmq.kernel.rows`.
"""

import json
from collections.abc import Callable, Mapping
from struct import error as struct_error

from cometmq.kernel.crc import crc32
from cometmq.kernel.lane_table import LaneTable
from cometmq.kernel.layouts import (
    BATCH_HEAD,
    CRC_MASK,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_SIZE_MAX,
    QUEUE_ENTRY,
    SHORT_SIZE,
    TOPIC_BLOCK_V1_MAX,
)
from cometmq.kernel.queue_ends import has_filled
from cometmq.kernel.rows import (
    Arrival,
    Buffer,
    End,
    HeadRow,
    Pending,
    Put,
    PutResult,
    RawCommand,
)
from cometmq.model.codes import RequestCode
from cometmq.model.flags import ONEWAY, TRANSACTION_COMMIT

_SEND_V2 = int(RequestCode.SEND_MESSAGE_V2)
_KEY_NAME = "UNIQ_KEY\1"
_KEY_AT = len(_KEY_NAME)
_IN_A_QUEUE = (0, TRANSACTION_COMMIT)  # Half and rolled-back messages have no place in one.
_BATCH_HEAD = BATCH_HEAD.struct
_VALUE_END = 2

# What stands between the parts of an answer that change: queue offset, unique key, opaque.
OFFSET = '","queueOffset":"'
KEY = '","transactionId":"'
MIDDLE = '"},"flag":1,"language":"PYTHON","opaque":'
END = ',"serializeTypeCurrentRPC":"JSON","version":479}'

# Prefixes of frames without a body, by the size of the header.
_PREFIX_SIZE_MAX = 1024

# A message id ends with the physical offset in 16 hex digits: 13 that change every 4 KiB of log, and
# three that are looked up, which takes half the time of formatting all of them.
_LOW_BITS = 12
_LOW_MASK = (1 << _LOW_BITS) - 1
_LOW_DIGITS = tuple(f"{low:03X}" for low in range(1 << _LOW_BITS))


def plain_sends(
    commands: list[RawCommand],
    first: int,
    straight: LaneTable[End],
    shapes: dict[str, int],
    look: Callable[[str], int | None],
    suffix: bytes,
    host: bytes,
    body_size_max: int,
    puts: list[Put[End]],
    pending: list[Pending],
) -> int:
    """Take sends that have nothing special about them.

    One loop without calls, on purpose: this is the path that a broker's speed is made of
    (bench/README.md). Whatever is missing, special or of another kind than text ends it.

    Args:
        commands: of one read.
        first: where to begin.
        straight: the lanes that are found without asking.
        shapes: properties around the unique key -> tags code, of those that are plain.
        look: asked about a shape that is not in `shapes`; gives None when it is not plain.
        suffix: what the broker adds to each message's properties.
        host: the client, as records hold it.
        body_size_max: bytes.
        puts: gets a record of each.
        pending: gets what answers each.

    Returns:
        The index of the first command that was not taken.
    """
    born_text, born_ms = "", 0
    for index in range(first, len(commands)):
        code, flag, opaque, _, _, _, fields, body, _ = commands[index]
        try:
            queue, topic, answer_start, _ = straight.find(fields["b"], fields["e"])
            text = fields["i"]
            is_batch = fields.get("m") not in {None, "false"}  # However it says so.
            if code != _SEND_V2 or fields["f"] != "0" or is_batch or not is_whole(fields):
                return index
            key, shape = _key_and_shape(text)
            tags_code = shapes.get(shape)
            if tags_code is None and (tags_code := look(shape)) is None:
                return index
            if (born := fields["g"]) != born_text:  # Mostly one millisecond a read.
                born_text, born_ms = born, _number_of(born, 62)
            properties = text.encode() + suffix
            if len(properties) > PROPERTIES_SIZE_MAX or not 0 < len(body) <= body_size_max:
                return index
            user_flag, tries = _number_of(fields["h"], 31), fields.get("j")
            tried = 0 if tries is None else _number_of(tries, 31)
        except (LookupError, ValueError, TypeError, AttributeError):
            return index
        puts.append((
            queue, topic, body, properties, tags_code,
            user_flag, 0, born_ms, host, tried, 0, 0,
        ))  # fmt: skip
        pending.append((opaque, None if flag & ONEWAY else answer_start, key))
    return len(commands)


def is_whole(fields: Mapping[str, str]) -> bool:
    """Return whether a send has the fields that no fast path reads, as clients write them; see `taking`.

    Raises:
        ValueError: One is no number.
    """
    for letter in ("d", "l"):
        _number_of(fields.get(letter, "0"), 31)
    return "a" in fields and fields.get("k", "false") in {"true", "false"}


def _key_and_shape(text: str) -> tuple[str, str]:
    """The unique key in a property block, and what stands around it.

    Raises:
        ValueError: there is none, or it is empty, which is as good as none: admission makes one.
    """
    key_at = text.index(_KEY_NAME) + _KEY_AT
    key_end = text.index("\2", key_at)
    if key_end == key_at:
        raise ValueError("an empty key")
    behind = text[key_end:]
    shape = behind if key_at == _KEY_AT else f"{text[: key_at - _KEY_AT]}\0{behind}"
    return text[key_at:key_end], shape


def _number_of(text: str, bits: int) -> int:
    if text == "0":
        return 0
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits or str(number) != text:
        raise ValueError("out of its range, or written as nobody does")
    return number


def plain_batch(
    body: bytes,
    shared: bytes,
    queue: End,
    topic_block: bytes,
    born_ms: int,
    host: bytes,
    times: int,
    hash_of: Callable[[str], int],
    puts: list[Put[End]],
) -> bool:
    """Take the messages of a batch, when there is nothing special about any.

    Args:
        body: of the batch (docs/format/batch.md).
        shared: properties that come behind each message's own.
        queue: for all of them, and so on.
        topic_block: see `Lane`.
        born_ms: epoch ms at the client.
        host: the client.
        times: how often it was consumed in vain.
        hash_of: the hash of a tag.
        puts: gets a record of each.

    Returns:
        Whether it did; `puts` is as it was when not.
    """
    position, size = 0, len(body)
    taken: list[Put[End]] = []
    try:
        while position < size:
            item_size, _, _, flag, body_size = _BATCH_HEAD.unpack_from(body, position)
            start = position + BATCH_HEAD.size
            own_at = start + body_size
            own_size = int.from_bytes(body[own_at : own_at + 2])
            position += item_size
            if body_size < 0 or own_at + 2 + own_size != position or position > size:
                return False
            own = body[own_at + 2 : position]
            tag = _tag_of(own)
            if own and own[-1] != _VALUE_END:
                own += b"\2"
            if tag is None or len(own) + len(shared) > PROPERTIES_SIZE_MAX:
                return False
            taken.append((
                queue, topic_block, body[start:own_at], own + shared,
                hash_of(tag) if tag else 0, flag, 0, born_ms, host, times, 0, 0,
            ))  # fmt: skip
    except (struct_error, ValueError):
        return False
    puts += taken
    return bool(taken)


def _tag_of(block: bytes) -> str | None:
    """The tag of a property block, "" without one; None when it may be special.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    tag = ""
    for piece in block.decode().split("\2"):
        name, _, value = piece.partition("\1")
        if piece and (not name or not value or "\1" in value):
            return None
        if name == "DELAY" or name.startswith("TIMER_D"):
            return None
        if name == "TAGS":
            tag = value
    return tag


def pack_records(
    puts: list[Put[End]],
    first: int,
    position: int,
    end: int,
    layouts: dict[int, HeadRow],
    store_ms: int,
    store_host: bytes,
    due_ms: Callable[[int], int],
    content: list[Buffer],
    arrivals: list[Arrival[End]],
    results: list[PutResult],
) -> tuple[int, int]:
    """Lay records out, as many as there is room for.

    Args:
        puts: the messages.
        first: where to begin.
        position: physical offset of the first record.
        end: physical offset that no record may pass.
        layouts: by the size of the born host.
        store_ms: the time of them all.
        store_host: this broker.
        due_ms: when a message in a queue of the delay topic is due; its tags code.
        content: gets the records' bytes, in one piece or many.
        arrivals: gets the queue entries that are due.
        results: gets where each lies.

    Returns:
        The index of the first put that was not laid out, and the physical offset behind the last.

    Raises:
        struct.error, OverflowError: a number that does not fit its field. The arrivals are those whose
            queues have moved on.
        KeyError: a born host that is no host.
    """
    add, arrive, note = content.extend, arrivals.append, results.append
    in_a_queue, v1_max = _IN_A_QUEUE, TOPIC_BLOCK_V1_MAX
    for index in range(first, len(puts)):
        (queue, topic, body, properties, tags_code, flag, sys_flag, born_ms, born_host,
         reconsume_times, prepared_offset, transaction) = puts[index]  # fmt: skip
        pack, fixed_size, bits = layouts[len(born_host)]
        body_size, properties_size = len(body), len(properties)
        size = fixed_size + body_size + len(topic) + properties_size
        if position + size > end:
            return index, position
        queue_offset = 0
        if transaction in in_a_queue:
            queue_offset = queue.next_offset
        head = pack(
            size, MAGIC_V1 if len(topic) <= v1_max else MAGIC_V2, crc32(body) & CRC_MASK,
            queue.queue_id, flag, queue_offset, position, sys_flag | bits, born_ms,
            born_host, store_ms, store_host, reconsume_times, prepared_offset, body_size,
        )  # fmt: skip
        add((head, body, topic, properties_size.to_bytes(SHORT_SIZE), properties))
        if transaction in in_a_queue:
            queue.next_offset = queue_offset + 1
            code = due_ms(queue.queue_id) if tags_code is None else tags_code
            arrive((queue, queue_offset, position, size, code))
        note((queue_offset, position, size))
        position += size
    return len(puts), position


def show_entries(
    arrivals: list[Arrival[End]],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> None:
    """Append queue entries to the tails of their queues.

    Args:
        arrivals: the entries.
        dirty: gets queues whose tail was empty.
        tail_size_max: bytes.
        full: gets a queue for each `tail_size_max` bytes that its tail reaches with an entry.
        watched: gets the tags codes of queues that somebody waits for.
    """
    pack = QUEUE_ENTRY.struct.pack
    for queue, queue_offset, physical_offset, size, tags_code in arrivals:
        tail = queue.tail
        if not tail:
            dirty[queue] = None
        tail += pack(physical_offset, size, tags_code)
        queue.max_offset = queue_offset + 1
        if has_filled(len(tail), tail_size_max):
            full.append(queue)
        if queue.watched:
            watched.setdefault(queue, []).append(tags_code)


def encode_answers(pending: list[Pending], results: list[PutResult]) -> bytes:
    """The frames of the answers to sends, one behind the other: one text, made bytes at once.

    Args:
        pending: what each send still waits for.
        results: where each message lies.
    """
    keys = pending[0][2] if len(pending) == 1 else "".join([key for _, _, key in pending])
    if not keys.encode("utf-8", "replace").isalnum():
        pending = [(opaque, start, json.dumps(key)[1:-1]) for opaque, start, key in pending]
    prefixes, low_digits = _PREFIXES, _LOW_DIGITS
    high, high_digits = -1, ""
    frames = []
    for (opaque, start, key), (queue_offset, physical_offset, _) in zip(
        pending, results, strict=True
    ):
        if start is None:
            continue
        if physical_offset >> _LOW_BITS != high:
            high = physical_offset >> _LOW_BITS
            high_digits = f"{high:013X}"
        header = (
            f"{start}{high_digits}{low_digits[physical_offset & _LOW_MASK]}"
            f"{OFFSET}{queue_offset}{KEY}{key}{MIDDLE}{opaque}{END}"
        )
        size = len(header)
        frames.append((prefixes[size] if size < _PREFIX_SIZE_MAX else _prefix(size)) + header)
    return "".join(frames).encode("latin-1")


def as_one(
    one: Pending, results: list[PutResult], host: str
) -> tuple[list[Pending], list[PutResult]]:
    """A batch is answered as one send, whose message id is those of its records with commas.

    Args:
        one: the batch.
        results: of its records.
        host: the store host as message ids have it.
    """
    opaque, start, key = one
    _, last_offset, size = results[-1]
    last = [(results[0][0], last_offset, size)]
    if start is None:
        return [one], last
    return [(opaque, start + ids_of(results[:-1], host), key)], last


def ids_of(results: list[PutResult], host: str) -> str:
    """The message ids of records in front of the last one."""
    return "".join([f"{physical_offset:016X},{host}" for _, physical_offset, _ in results])


def _prefix(size: int) -> str:
    return ((size + 4).to_bytes(4) + size.to_bytes(4)).decode("latin-1")


_PREFIXES = tuple(map(_prefix, range(_PREFIX_SIZE_MAX)))
