r"""The properties of many records: as stored text, as a map, and single ones as columns.

A record stores `name\x01value\x02` for each property. All blocks of a window are copied into one string array, and the
separators of all of them are found at once. The rules are those of RocketMQ 5.3
MessageDecoder.string2messageProperties: the last \x02 may be missing, an entry without name, separator or value is
skipped, a value may contain \x01, and of two equal names the later wins.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from cometmq.offline.columns.pieces import (
    STRING,
    contents,
    indices_of,
    number_array,
    take_pieces,
)
from cometmq.offline.columns.window import Longs, RecordPieces, elements_at

_NAME_END, _ENTRY_END = 1, 2
_ENTRY_SIZE_MIN = 3  # One character of name, the separator, one of value.
# Counting is faster than sorting as long as the table of counts is small (32 MiB).
_CELLS_MAX = 1 << 22


class PropertyColumn:
    """The entries of an array of property blocks (one per row, no nulls): positions of names and values, and rows."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts
        self._buffer, self._octets, rows = contents(texts)
        self._names, self._values = _split(self._octets, rows)
        # First entry of each row: an entry starts strictly before its row's end.
        self._row_offsets: Longs = np.searchsorted(self._names.starts, rows)

    def as_map(self, kind: pa.DataType) -> pa.Array:
        """Return the properties of each row as a map of Arrow type `kind`."""
        names, values, offsets = self._kept
        ends = number_array(offsets.astype(np.int32))
        return pa.MapArray.from_arrays(ends, names, values, type=kind)

    def as_json(self) -> pa.Array:
        """Return the properties of each row as text, a JSON object."""
        names, values, offsets = self._kept
        pairs = list(zip(names.to_pylist(), values.to_pylist(), strict=True))
        ends = offsets.tolist()
        texts = [orjson.dumps(dict(pairs[start:end])) for start, end in pairwise(ends)]
        return pa.array(texts, pa.binary()).view(STRING)

    def column(self, name: str) -> pa.Array:
        """Return the value of one property for each row, null if it has none.

        Only names of the same length are compared, and only matching values are copied.
        """
        found = self._entries_named(name.encode())
        picked = np.full(len(self.texts), -1, np.int64)
        picked[self._entry_rows[found]] = found  # If a row has two, the later one wins.
        there = picked[picked >= 0]
        spans = RecordPieces(self._values.starts[there], self._values.ends[there])
        values = take_pieces(self._buffer, spans, STRING)
        if len(there) == len(picked):
            return values
        places = np.cumsum(picked >= 0) - 1
        return values.take(number_array(places, picked >= 0))

    @cached_property
    def _entry_rows(self) -> Longs:
        counts = np.diff(self._row_offsets)
        return np.repeat(np.arange(len(self.texts)), counts)

    @cached_property
    def _name_sizes(self) -> Longs:
        return self._names.lengths

    def _entries_named(self, name: bytes) -> Longs:
        found: Longs = np.flatnonzero(self._name_sizes == len(name))
        for at, width in _words(len(name)):
            word = np.frombuffer(name, f"u{width}", 1, at)
            places = self._names.starts[found] + at
            found = found[elements_at(self._octets, places, word.dtype.str) == word]
        return found

    @cached_property
    def _kept(self) -> tuple[pa.Array, pa.Array, Longs]:
        """Names, values, and where each row begins among them, with only the last entry of each name in a row."""
        names = take_pieces(self._buffer, self._names, STRING)
        values = take_pieces(self._buffer, self._values, STRING)
        encoded = names.dictionary_encode()
        different = len(encoded.dictionary)
        cells = self._entry_rows * max(different, 1) + indices_of(encoded)
        if _all_differ(cells, len(self.texts) * different):
            return names, values, self._row_offsets
        # Reversed, because unique keeps the first occurrence.
        kept = len(cells) - 1 - np.unique(cells[::-1], return_index=True)[1]
        kept.sort()
        counts = np.bincount(self._entry_rows[kept], minlength=len(self.texts))
        rows: Longs = np.concatenate(([0], np.cumsum(counts)))
        return names.take(number_array(kept)), values.take(number_array(kept)), rows


def _words(size: int) -> list[tuple[int, int]]:
    """Return (position, width) of words of 8, 4, 2 and 1 bytes that cover this many bytes."""
    found, at = [], 0
    for width in (8, 4, 2, 1):
        while size - at >= width:
            found.append((at, width))
            at += width
    return found


def _all_differ(cells: Longs, bound: int) -> bool:
    if bound > _CELLS_MAX:
        return len(np.unique(cells)) == len(cells)
    return len(cells) == 0 or int(np.bincount(cells).max()) <= 1


def _split(octets: npt.NDArray[np.uint8], rows: Longs) -> tuple[RecordPieces, RecordPieces]:
    """Return the positions of valid entries' names and values; `rows` are the rows' starts, and the last one's end."""
    first, last = rows[0], rows[-1]
    cuts = first + np.flatnonzero(octets[first:last] == _ENTRY_END)
    if len(cuts) and (octets[rows[1:] - 1] == _ENTRY_END).all() and rows[1] > first:
        # Every row ends its last entry, as good writers do: an entry begins where the previous one ends.
        starts, ends = np.concatenate((rows[:1], cuts[:-1] + 1)), cuts
    else:
        # Sorted starts and ends match, because entries do not overlap; empty ones are dropped.
        starts = np.sort(np.concatenate((rows[:-1], cuts + 1)), kind="stable")
        ends = np.sort(np.concatenate((rows[1:], cuts)), kind="stable")
    filled = ends - starts >= _ENTRY_SIZE_MIN
    if not filled.all():
        starts, ends = starts[filled], ends[filled]
    marks = first + np.flatnonzero(octets[first:last] == _NAME_END)
    middles = _first_behind(marks, starts, ends, last)
    whole = (middles > starts) & (middles < ends - 1)
    if not whole.all():
        starts, middles, ends = starts[whole], middles[whole], ends[whole]
    return RecordPieces(starts, middles), RecordPieces(middles + 1, ends)


def _first_behind(marks: Longs, starts: Longs, ends: Longs, last: int) -> Longs:
    """Return the first mark at or after each start; `last` if there is none."""
    if len(marks) == len(starts) and np.all((marks >= starts) & (marks < ends)):
        return marks  # One in each entry, as good writers do: no search is needed.
    found: Longs = np.append(marks, last)[np.searchsorted(marks, starts)]
    return found
