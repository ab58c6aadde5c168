"""From the bytes of a connection to columns, in plain Python: which sends have nothing special about them.

A frame becomes a row of a `SendBatch`, a batch message one for each of its messages. Whatever is unusual ends it. What is
taken is stored as the careful way would (`broker.send.admission`), so this may decline anything. Compiled: `_taking`.
"""

import re
from typing import NamedTuple

from cometmq.kernel.columns import SendBatch
from cometmq.kernel.lane_table import LaneTable
from cometmq.kernel.layouts import (
    BATCH_HEAD,
    FRAME_HEAD,
    HEADER_SIZE_MAX,
    PROPERTIES_SIZE_MAX,
    SHORT_SIZE,
)
from cometmq.kernel.reference import java_hash_many
from cometmq.kernel.rows import End, TakeLimits
from cometmq.kernel.send_headers import SEND, SEND_BATCH, Header, read_header
from cometmq.kernel.signatures import KnownSigner
from cometmq.model.flags import ONEWAY, RESPONSE

_HEAD, _ITEM_HEAD = FRAME_HEAD.struct, BATCH_HEAD.struct
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,17}")
# Properties, or ends of their names, that only the careful way knows how to treat.
_SPECIAL_ENDS = (b"DELAY", b"TRAN_MSG", b"POP_CK")
_SPECIAL_MARKS = (b"\0", b"TIMER_D", b"INNER_MULTI")
_KEY_NAME, _TAGS_NAME, _WAIT_NAME = b"UNIQ_KEY", b"TAGS", b"WAIT"
# Of SEND_MESSAGE so many properties at most.
NAMES_MAX = 16


class _PlainBlock(NamedTuple):
    """The unique key's place in a block of properties, 0 where there is none; and the tag."""

    key_at: int
    key_end: int
    tag: bytes


class _PlainMessage(NamedTuple):
    """A message that has nothing special about it; its key lies in its block, 0 where it has none."""

    body_at: int
    body_end: int
    flag: int
    block: bytes
    key_at: int
    key_end: int
    tag: bytes


def take_sends(
    batch: SendBatch[End],
    data: bytes,
    position: int,
    count_max: int,
    host: bytes,
    straight: LaneTable[End],
    limits: TakeLimits,
    signer: KnownSigner | None = None,
) -> int:
    """Take sends from a connection's bytes, up to the first frame that is another or in any way unusual.

    Args:
        batch: gets a row of each message.
        data: what was read; it is kept, for the bodies stay in it.
        position: where the first frame begins.
        count_max: most sends.
        host: the client, as records hold it.
        straight: the lanes that are found without asking.
        limits: what a longer or larger send is no plain one by.
        signer: who must have signed each; None: nobody.

    Returns:
        The position behind the last that was taken.
    """
    before, size = batch.request_count, len(data)
    body_size_max, frame_size_max, header_size_max, batch_count_max = limits
    if signer is not None:
        signer.asked = None
    while size - position >= FRAME_HEAD.size and batch.request_count - before < count_max:
        length, head = _HEAD.unpack_from(data, position)
        start, header_size = position + FRAME_HEAD.size, head & HEADER_SIZE_MAX
        end = position + 4 + length
        if not 4 <= length <= frame_size_max - 4 or end > size:
            break
        if header_size > min(header_size_max, length - 4):
            break
        body_at = start + header_size
        header = read_header(head >> 24, data[start:body_at])
        if header is None or (signer and not signer.passes(header, data[body_at:end])):
            break
        if not 0 < end - body_at <= body_size_max:
            break
        messages = _messages_of(header, data, body_at, end)
        if not 0 < len(messages) <= batch_count_max:
            break
        if not _add(batch, header, messages, straight):
            break
        position = end
    if batch.request_count > before:
        batch.hosts.append(host)
        batch.buffers.append(data)
    return position


def _messages_of(header: Header, data: bytes, body_at: int, end: int) -> list[_PlainMessage]:
    """The messages of a send; none where there is anything special about one."""
    code, _, flag, fields = header
    is_batch = code == SEND_BATCH
    if flag & RESPONSE or fields.get(b"f") != b"0" or not _is_whole(fields):
        return []
    # A batch, however it says so, is one by its code.
    if fields.get(b"m", b"false") not in ((b"false", b"true") if is_batch else (b"false",)):
        return []
    try:
        block, user_flag = fields.get(b"i", b""), _number_of(fields[b"h"], 31)
        block.decode()
        if is_batch:
            return _items_of(block, data, body_at, end)
        found = _look(block)
    except (LookupError, ValueError):
        return []
    if found is None or not found.key_end or (code == SEND and not _is_once(block)):
        return []
    return [_PlainMessage(body_at, end, user_flag, block, *found)]


def _items_of(shared: bytes, data: bytes, position: int, end: int) -> list[_PlainMessage]:
    """The messages of a batch message (docs/format/batch.md): what it says of all stands behind the properties of each.

    Raises:
        ValueError: properties that are no text.
    """
    of_all = _look(shared)
    if of_all is None or of_all.tag:
        return []
    messages = []
    while position < end:
        if position + _ITEM_HEAD.size > end:
            return []
        item_size, _, _, flag, body_size = _ITEM_HEAD.unpack_from(data, position)
        start = position + _ITEM_HEAD.size
        own_at = start + body_size
        if body_size < 0 or own_at + SHORT_SIZE > end:
            return []
        own_end = own_at + SHORT_SIZE + int.from_bytes(data[own_at : own_at + SHORT_SIZE])
        position += item_size
        if own_end != position or position > end:
            return []
        own = data[own_at + SHORT_SIZE : own_end]
        own.decode()
        if own[-1:] not in {b"", b"\2"}:
            own += b"\2"
        found = _look(own)
        if found is None:
            return []
        if of_all.key_end:  # It is that of each message, for it stands behind its own.
            found = _PlainBlock(len(own) + of_all.key_at, len(own) + of_all.key_end, found.tag)
        messages.append(_PlainMessage(start, own_at, flag, own + shared, *found))
    return messages


def _add(
    batch: SendBatch[End],
    header: Header,
    messages: list[_PlainMessage],
    straight: LaneTable[End],
) -> bool:
    """Add a send as rows; False where there is no lane for it, or a number is none."""
    fields = header.fields
    try:
        lane = straight.find(fields[b"b"].decode(), fields[b"e"].decode())
        born_ms = _number_of(fields[b"g"], 62)
        tried = _number_of(fields.get(b"j", b"0"), 31)
    except (LookupError, ValueError):
        return False
    room = PROPERTIES_SIZE_MAX - len(batch.suffix)
    if any(len(message.block) > room for message in messages):
        return False
    # The answer names the key of all; one that a message of a batch has of its own is in the index alone.
    is_unnamed = header.code == SEND_BATCH and _KEY_NAME + b"\1" not in fields.get(b"i", b"")
    for number, message in enumerate(messages):
        at = len(batch.text)
        batch.text += message.block
        batch.numbers.extend((
            message.body_at, message.body_end, at, at + len(message.block),
            at + message.key_at, at + message.key_end,
            java_hash_many([message.tag])[0] if message.tag else 0,
            born_ms, message.flag, tried, header.opaque, header.flag & ONEWAY,
            0 if number else len(messages), is_unnamed,
        ))  # fmt: skip
        batch.origins.append(len(batch.hosts))
        batch.lanes.append(lane)
    batch.count += len(messages)
    batch.request_count += 1
    return True


def _look(block: bytes) -> _PlainBlock | None:
    """Look a block of properties over; None where anything in it may be special."""
    if not block:
        return _PlainBlock(0, 0, b"")
    if block[-1:] != b"\2" or any(mark in block for mark in _SPECIAL_MARKS):
        return None
    key, tag, at = (0, 0), b"", 0
    for piece in block[:-1].split(b"\2"):
        name, _, value = piece.partition(b"\1")
        if not name or not value or b"\1" in value or _is_special(name, value):
            return None
        if name.endswith(_KEY_NAME):
            if name != _KEY_NAME or key[1] or not value.isalnum():
                return None
            key = at + len(name) + 1, at + len(piece)
        elif name.endswith(_TAGS_NAME):
            if name != _TAGS_NAME or tag:
                return None
            tag = value
        at += len(piece) + 1
    return _PlainBlock(*key, tag)


def _is_special(name: bytes, value: bytes) -> bool:
    no_wait = name.endswith(_WAIT_NAME) and value.startswith(b"f")
    return no_wait or name.endswith(_SPECIAL_ENDS)


def _is_whole(fields: dict[bytes, bytes]) -> bool:
    """Return whether a send has the fields that nothing else here reads, as clients write them.

    The careful way reads all fields (`SendRequestV2`) and refuses a send of which one is missing or means nothing.
    """
    numbers = [fields.get(letter, b"0") for letter in (b"d", b"l")]
    is_bool = fields.get(b"k", b"false") in {b"true", b"false"}
    return b"a" in fields and is_bool and all(map(_is_number, numbers))


def _is_once(block: bytes) -> bool:
    """Return whether no property comes twice, and these are not many: SEND_MESSAGE has them joined anew."""
    names = [piece.partition(b"\1")[0] for piece in block.split(b"\2")]
    # The last piece is empty.
    return len(names) <= NAMES_MAX + 1 and len(set(names)) == len(names)


def _is_number(text: bytes) -> bool:
    try:
        _number_of(text, 31)
    except ValueError:
        return False
    return True


def _number_of(text: bytes, bits: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number, or written as nobody does")
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError("out of its range")
    return number
