"""Rows as items of a batch request, many at once: the sink's twin of `columns`.

An item is `| size 4 | 0 | 0 | flag 4 | body size 4 | body | properties size 2 | properties |`
(docs/format/batch.md). The fixed parts of all rows are one numpy table; Arrow joins them with bodies
and properties, so the items of all rows lie end to end in one buffer, ready to be cut into requests.

Next: cometmq.spark.sink.sender
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.codec.batch import BATCH_ITEM_SIZE_MIN
from cometmq.codec.properties import PROPERTIES_SIZE_MAX
from cometmq.model import properties as keys_of
from cometmq.model.errors import MessageError
from cometmq.spark.columns.pieces import BINARY, STRING
from cometmq.spark.sink.columns import SinkColumns

_NAME_END, _ENTRY_END = keys_of.NAME_SEPARATOR, keys_of.PROPERTY_SEPARATOR
_RESERVED = pa.array(sorted(keys_of.RESERVED), STRING)


def encode_rows(
    batch: pa.RecordBatch, columns: SinkColumns, new_id: Callable[[], str]
) -> pa.Array:
    """Each row as an encoded item: a binary array.

    Args:
        batch: rows of Spark; together below 2 GiB.
        columns: which column is what.
        new_id: makes the message ids.

    Raises:
        MessageError: a row that cannot be a message; the text says why.
    """
    bodies = _column(batch, columns, "body", BINARY)
    if bodies.null_count:
        raise MessageError("a row has no body: it is null; send empty bytes if that is meant")
    blocks = _property_blocks(batch, columns, new_id).cast(BINARY)
    body_sizes, block_sizes = _sizes(bodies), _sizes(blocks)
    if len(block_sizes) and block_sizes.max() > PROPERTIES_SIZE_MAX:
        raise MessageError(
            f"a row has properties of {block_sizes.max()} bytes; a message has room for "
            f"{PROPERTIES_SIZE_MAX}"
        )
    heads = np.zeros((batch.num_rows, 5), ">i4")
    heads[:, 0] = BATCH_ITEM_SIZE_MIN + body_sizes + block_sizes
    flags = _column(batch, columns, "flag", pa.int32())
    heads[:, 3] = pc.fill_null(flags, 0).to_numpy(zero_copy_only=False)
    heads[:, 4] = body_sizes
    return pc.binary_join_element_wise(
        _fixed(heads, 20), bodies, _fixed(block_sizes.astype(">i2"), 2), blocks, b""
    )


def _property_blocks(
    batch: pa.RecordBatch, columns: SinkColumns, new_id: Callable[[], str]
) -> pa.Array:
    """The stored properties of each row.

    What the system owns is made anew, so that rows which were read can be written back.
    """
    ids = pa.array([new_id() for _ in range(batch.num_rows)], STRING)
    parts = [_entries(keys_of.UNIQ_KEY, ids)]
    if "properties" in columns.names:
        parts.append(_map_entries(_column(batch, columns, "properties", None)))
    for meaning, name in (
        ("tags", keys_of.TAGS),
        ("keys", keys_of.KEYS),
        ("shardingKey", keys_of.SHARDING_KEY),
    ):
        if meaning in columns.names:
            values = _texts(_column(batch, columns, meaning, None))
            _refuse_separators(values, columns.names[meaning])
            parts.append(_entries(name, values))
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
    _refuse_separators(names, "properties")
    _refuse_separators(values, "properties")
    pairs = pc.binary_join_element_wise(names, values, _NAME_END)
    pairs = pc.binary_join_element_wise(pairs, _ENTRY_END, "")
    is_kept = pc.and_(
        pc.and_(_is_text(names), _is_text(values)), pc.invert(pc.is_in(names, _RESERVED))
    )
    pairs = pc.if_else(is_kept, pairs, "")
    return pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), "")


def _texts(values: pa.Array) -> pa.Array:
    """Text as it is; lists of words as one text each, with blanks between; a null word is none."""
    if not pa.types.is_list(values.type):
        return values.cast(STRING)
    lists = values
    words = pc.fill_null(lists.values.cast(STRING), "")
    texts = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, words), " ")
    return pc.if_else(pc.is_valid(lists), texts, None)


def _is_text(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.greater(pc.binary_length(values), 0), fill_value=False)


def _refuse_separators(values: pa.Array, column: str) -> None:
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


def _sizes(values: pa.Array) -> Any:
    return pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)


def _fixed(table: Any, width: int) -> pa.Array:
    """A row of bytes for each row of a numpy table."""
    octets = np.ascontiguousarray(table).tobytes()
    count = len(octets) // width
    return pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(octets)]).cast(
        BINARY
    )
