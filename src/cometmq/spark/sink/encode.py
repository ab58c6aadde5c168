"""Rows as messages, many at once: bodies, properties and flags as columns, ready to be cut into requests.

Most rows travel as items of a batch request (docs/format/batch.md), `offline.columns.batch_items`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.model import properties as keys_of
from cometmq.model.errors import MessageError
from cometmq.offline.columns.batch_items import (
    batch_items,
    check_block_sizes,
    compressed_bodies,
)
from cometmq.offline.columns.pieces import BINARY, STRING, same
from cometmq.spark.sink.columns import SinkColumns
from cometmq.spark.sink.identity import Ids

SPARK_SEQ = "SPARK_SEQ"
SPARK_RUN = "SPARK_RUN"

_NAME_END, _ENTRY_END = keys_of.NAME_SEPARATOR, keys_of.PROPERTY_SEPARATOR
# What the system owns, and what an earlier write of ours left in rows that were read back.
_RESERVED = pa.array(sorted({*keys_of.RESERVED, SPARK_SEQ, SPARK_RUN}), STRING)


class MessageRows(NamedTuple):
    """Rows as messages; each field has one entry for each.

    Attributes:
        bodies: as they are stored: binary.
        blocks: their properties (docs/format/properties.md): binary.
        flags: the user's numbers.
        sys_flags: how bodies are compressed.
        is_alone: whether a row cannot travel in a batch.
    """

    bodies: pa.Array
    blocks: pa.Array
    flags: npt.NDArray[np.int32]
    sys_flags: npt.NDArray[np.int32]
    is_alone: npt.NDArray[np.bool_]

    def take(self, indexes: npt.NDArray[np.int64]) -> "MessageRows":
        """The rows at some indexes."""
        return MessageRows(
            self.bodies.take(indexes),
            self.blocks.take(indexes),
            self.flags[indexes],
            self.sys_flags[indexes],
            self.is_alone[indexes],
        )

    def items(self) -> pa.Array:
        """Each row as an item of a batch: binary."""
        return batch_items(self.bodies, self.blocks, self.flags)


def encode_rows(
    batch: pa.RecordBatch,
    columns: SinkColumns,
    ids: Ids,
    *,
    compress_min: int | None = None,
    marks: Mapping[str, str] | None = None,
) -> MessageRows:
    """Rows of Spark as messages.

    Args:
        batch: together below 2 GiB.
        columns: which column is what.
        ids: gives each row its id.
        compress_min: bodies of so many bytes and more are compressed; None: none is.
        marks: properties that each row gets; then each travels alone.

    Raises:
        MessageError: a row that cannot be a message; the text says why.
    """
    bodies = _column(batch, columns, "body", BINARY)
    if bodies.null_count:
        raise MessageError("a row has no body: it is null; send empty bytes if that is meant")
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
    """The entries that say which row it is; the id is the first property of all."""
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
    """The entries of rows that are to be delivered later, and which rows these are."""
    is_delayed = np.zeros(batch.num_rows, np.bool_)
    parts: list[pa.Array] = []
    if columns.has("delayLevel"):
        levels = _column(batch, columns, "delayLevel", pa.int32())
        if pc.any(pc.less(levels, 0)).as_py():
            raise MessageError("a row has a delayLevel below 0; 0 or null is none, 1 the first")
        levels = pc.if_else(pc.fill_null(pc.greater(levels, 0), fill_value=False), levels, None)
        parts.append(_entries(keys_of.DELAY, levels.cast(STRING)))
        is_delayed |= _valid(levels)
    if columns.has("deliverTimestamp"):
        times = _column(batch, columns, "deliverTimestamp", None)
        if (is_delayed & _valid(times)).any():
            raise MessageError("a row has a delayLevel and a deliverTimestamp; give it one")
        times_ms = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
        parts.append(_entries(keys_of.TIMER_DELIVER_MS, times_ms.cast(STRING)))
        is_delayed |= _valid(times)
    return parts, is_delayed


def _property_blocks(
    batch: pa.RecordBatch, columns: SinkColumns, parts: list[pa.Array]
) -> pa.Array:
    """The stored properties of each row: `parts`, and what its columns say.

    What the system owns is made anew, so that rows which were read can be written back.
    """
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
    """`name 01 value 02` of each row; nothing where the value is null or empty."""
    entries = pc.binary_join_element_wise(name, values, _NAME_END)
    entries = pc.binary_join_element_wise(entries, _ENTRY_END, "")
    return pc.if_else(_is_text(values), entries, "")


def _map_entries(maps: pa.Array) -> pa.Array:
    """The user's properties of each row, without those that the system owns or that are empty."""
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
    """Texts of a column; lists of words become one text each, with blanks between; a null word is none."""
    if not pa.types.is_list(values.type):
        return values.cast(STRING)
    lists = values
    words = pc.fill_null(lists.values.cast(STRING), "")
    texts = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, words), " ")
    return pc.if_else(pc.is_valid(lists), texts, None)


def _is_text(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.greater(pc.binary_length(values), 0), fill_value=False)


def _check_text(values: pa.Array, column: str) -> None:
    """Refuse texts that a stored property cannot hold: Spark's strings may be any bytes.

    Raises:
        MessageError: one is no UTF-8, or has a byte that ends a property.
    """
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise MessageError(
            f"a row's {column} hold bytes that are no UTF-8; encode them, as with base64()"
        ) from None
    for mark in (_NAME_END, _ENTRY_END):
        if pc.any(pc.match_substring(values, mark)).as_py():
            raise MessageError(
                f"a row's {column} hold {mark!r}, which ends a stored property; remove it"
            )


def _column(
    batch: pa.RecordBatch, columns: SinkColumns, meaning: str, kind: pa.DataType | None
) -> pa.Array:
    """The column with a meaning; nulls where there is none."""
    name = columns.names.get(meaning)
    if name is None:
        return pa.nulls(batch.num_rows, kind)
    column = batch.column(batch.schema.get_field_index(name))
    try:
        return column if kind is None else column.cast(kind)
    except pa.ArrowInvalid as error:
        raise MessageError(f"column {name!r}: {error}") from error


def _valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))
