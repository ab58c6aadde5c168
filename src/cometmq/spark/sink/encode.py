"""Encoding of many rows of a Spark write as messages: bodies, properties and flags as columns, to divide into sends.

Rows that need no request of their own are sent as items of a batch request (docs/format/batch.md,
`offline.columns.batch_items`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.model import properties as keys_of
from cometmq.model.errors import MessageError
from cometmq.model.text import in_quotes
from cometmq.offline.columns.batch_items import (
    batch_items,
    check_block_sizes,
    compressed_bodies,
)
from cometmq.offline.columns.pieces import BINARY, STRING, same
from cometmq.spark.sink.columns import SinkColumns, check_utf8
from cometmq.spark.sink.identity import Ids

SPARK_SEQ = "SPARK_SEQ"
SPARK_RUN = "SPARK_RUN"

_NAME_END, _ENTRY_END = keys_of.NAME_SEPARATOR, keys_of.PROPERTY_SEPARATOR
# Properties set by RocketMQ or by this sink; they are dropped when rows that were read are written back.
_RESERVED = pa.array(sorted({*keys_of.RESERVED, SPARK_SEQ, SPARK_RUN}), STRING)


class MessageRows(NamedTuple):
    """Rows encoded as messages; each field has one entry per row.

    Attributes:
        bodies: Bodies as stored, binary.
        blocks: Encoded properties (docs/format/properties.md), binary.
        flags: Flags of the messages, set by the user.
        sys_flags: System flags with the compression of the bodies.
        is_alone: Whether a row is sent in a request of its own, because it is delayed or a half message.
    """

    bodies: pa.Array
    blocks: pa.Array
    flags: npt.NDArray[np.int32]
    sys_flags: npt.NDArray[np.int32]
    is_alone: npt.NDArray[np.bool_]

    def take(self, indexes: npt.NDArray[np.int64]) -> "MessageRows":
        """Return the encoded rows at the given indexes."""
        return MessageRows(
            self.bodies.take(indexes),
            self.blocks.take(indexes),
            self.flags[indexes],
            self.sys_flags[indexes],
            self.is_alone[indexes],
        )

    def items(self) -> pa.Array:
        """Return a binary Arrow array with an entry per row: the message encoded as an item of a batch send's body."""
        return batch_items(self.bodies, self.blocks, self.flags)


def encode_rows(
    batch: pa.RecordBatch,
    columns: SinkColumns,
    ids: Ids,
    *,
    compress_min: int | None = None,
    marks: Mapping[str, str] | None = None,
) -> MessageRows:
    """Encode rows as messages.

    Args:
        batch: Rows with less than 2 GiB of data.
        columns: Meanings of the columns.
        ids: Generates the message ids; a `msgId` in a row replaces its generated id.
        compress_min: Minimum size in bytes of bodies to compress; None for no compression.
        marks: Properties to add to each row, those of half messages; with any, `is_alone` is true for all rows.

    Raises:
        MessageError: A row is not a valid message; the text has the reason.
    """
    bodies = _column(batch, columns, "body", BINARY)
    if bodies.null_count:
        raise MessageError("a row has a null body; use empty bytes for an empty message")
    delays, is_alone = _delays(batch, columns)
    parts = _identities(batch, columns, ids)
    parts += [same(f"{name}{_NAME_END}{value}{_ENTRY_END}", batch.num_rows)
              for name, value in (marks or {}).items()]  # fmt: skip
    blocks = _property_blocks(batch, columns, [*parts, *delays]).cast(BINARY)
    check_block_sizes(blocks)
    flags = pc.fill_null(_column(batch, columns, "flag", pa.int32()), 0)
    bodies, sys_flags = compressed_bodies(bodies, compress_min)
    return MessageRows(
        bodies,
        blocks,
        flags.to_numpy(zero_copy_only=False),
        sys_flags,
        is_alone if not marks else np.ones(batch.num_rows, np.bool_),
    )


def _identities(batch: pa.RecordBatch, columns: SinkColumns, ids: Ids) -> list[pa.Array]:
    """Return columns of encoded properties that identify rows: message ids first, then SPARK_SEQ if the ids come with it."""
    unique, sequence = ids.take(batch)
    if columns.has("msgId"):
        own = _column(batch, columns, "msgId", STRING)
        _check_text(own, columns.names["msgId"])
        own = pc.if_else(_is_text(own), own, None)
        unique = pc.coalesce(own, unique)
    parts = [_entries(keys_of.UNIQ_KEY, unique)]
    if sequence is not None:
        parts.append(_entries(SPARK_SEQ, sequence))
    return parts


def _delays(
    batch: pa.RecordBatch, columns: SinkColumns
) -> tuple[list[pa.Array], npt.NDArray[np.bool_]]:
    """Return columns of encoded delay properties (empty without delay) and which rows are delayed; MessageError if invalid."""
    is_delayed = np.zeros(batch.num_rows, np.bool_)
    parts: list[pa.Array] = []
    if columns.has("delayLevel"):
        levels = _column(batch, columns, "delayLevel", pa.int32())
        if pc.any(pc.less(levels, 0)).as_py():
            raise MessageError(
                "a row has a negative delayLevel; 0 or null means no delay, 1 is the first level"
            )
        levels = pc.if_else(pc.fill_null(pc.greater(levels, 0), fill_value=False), levels, None)
        parts.append(_entries(keys_of.DELAY, levels.cast(STRING)))
        is_delayed |= _valid(levels)
    if columns.has("deliverTimestamp"):
        times = _column(batch, columns, "deliverTimestamp", None)
        if (is_delayed & _valid(times)).any():
            raise MessageError("a row has a delayLevel and a deliverTimestamp; set only one")
        times_ms = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
        parts.append(_entries(keys_of.TIMER_DELIVER_MS, times_ms.cast(STRING)))
        is_delayed |= _valid(times)
    return parts, is_delayed


def _property_blocks(
    batch: pa.RecordBatch, columns: SinkColumns, parts: list[pa.Array]
) -> pa.Array:
    """Encode each row's properties: `parts`, tags, keys, sharding key, and its `properties` without reserved ones."""
    if columns.has("properties"):
        parts = [*parts, _map_entries(_column(batch, columns, "properties", None))]
    for meaning, name in (
        ("tags", keys_of.TAGS),
        ("keys", keys_of.KEYS),
        ("shardingKey", keys_of.SHARDING_KEY),
    ):
        if columns.has(meaning):
            values = _texts(_column(batch, columns, meaning, None))
            _check_text(values, columns.names[meaning])
            parts = [*parts, _entries(name, values)]
    return pc.binary_join_element_wise(*parts, "")


def _entries(name: str, values: pa.Array) -> pa.Array:
    """Return the encoded property of each row: name, U+0001, value, U+0002; empty if the value is null or empty."""
    entries = pc.binary_join_element_wise(name, values, _NAME_END)
    entries = pc.binary_join_element_wise(entries, _ENTRY_END, "")
    return pc.if_else(_is_text(values), entries, "")


def _map_entries(maps: pa.Array) -> pa.Array:
    """Encode the column `properties` of each row, without reserved and empty ones."""
    maps = pc.if_else(pc.is_valid(maps), maps, pa.scalar([], maps.type))
    names, values = maps.keys.cast(STRING), maps.items.cast(STRING)
    _check_text(names, "properties")
    _check_text(values, "properties")
    pairs = pc.binary_join_element_wise(names, values, _NAME_END)
    pairs = pc.binary_join_element_wise(pairs, _ENTRY_END, "")
    is_kept = pc.and_(
        pc.and_(_is_text(names), _is_text(values)), pc.invert(pc.is_in(names, _RESERVED))
    )
    pairs = pc.if_else(is_kept, pairs, "")
    return pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), "")


def _texts(values: pa.Array) -> pa.Array:
    """Return a column as text; a list of words is joined with blanks, null words count as empty."""
    if not pa.types.is_list(values.type):
        return values.cast(STRING)
    lists = values
    words = pc.fill_null(lists.values.cast(STRING), "")
    texts = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, words), " ")
    return pc.if_else(pc.is_valid(lists), texts, None)


def _is_text(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.greater(pc.binary_length(values), 0), fill_value=False)


def _check_text(values: pa.Array, column: str) -> None:
    """Raise MessageError if a text is not UTF-8 or has a separator of properties."""
    check_utf8(values, column)
    for mark in (_NAME_END, _ENTRY_END):
        if pc.any(pc.match_substring(values, mark)).as_py():
            raise MessageError(
                f"the {column} of a row contain the character U+{ord(mark):04X}, which separates stored "
                "properties; remove it"
            )


def _column(
    batch: pa.RecordBatch, columns: SinkColumns, meaning: str, kind: pa.DataType | None
) -> pa.Array:
    """Return the column with a meaning, cast to `kind`, or nulls if rows lack it; MessageError if the cast fails."""
    name = columns.names.get(meaning)
    if name is None:
        return pa.nulls(batch.num_rows, kind)
    column = batch.column(batch.schema.get_field_index(name))
    try:
        return column if kind is None else column.cast(kind)
    except pa.ArrowInvalid as error:
        raise MessageError(f"column {in_quotes(name)}: {error}") from error


def _valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))
