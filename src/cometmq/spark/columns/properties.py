r"""The properties of many records: as stored text, as a map, and single ones as columns.

A record stores `name\x01value\x02` end to end. All blocks of a window are taken into one string
array, and the separators of all of them are found at once. The rules are those of RocketMQ 5.3
MessageDecoder.string2messageProperties: the last \x02 may be missing, an entry without name,
separator or value is skipped, a value may hold \x01, and of two equal names the later wins.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from cometmq.spark.columns.pieces import STRING, contents, take_pieces
from cometmq.spark.columns.window import Longs, Span

_NAME_END, _ENTRY_END = 1, 2
_ENTRY_SIZE_MIN = 3  # One character of name, the separator, one of value.
_CELLS_MAX = 1 << 22  # Counting beats sorting while the table of counts stays small (32 MiB).


class PropertyColumn:
    """The entries of all rows, in order: names, values, and which row each belongs to.

    Args:
        texts: a string array without nulls, a row's block each.
    """

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts
        buffer, octets, rows = contents(texts)
        names, values = _split(octets, rows)
        starts = names.starts
        self.names = take_pieces(buffer, names, STRING)
        self.values = take_pieces(buffer, values, STRING)
        # Where each row's entries begin: an entry starts strictly before its row's end.
        self.row_offsets: Longs = np.searchsorted(starts, rows)
        self._drop_repeats()

    def as_map(self, kind: pa.DataType) -> pa.Array:
        """The rows as maps of the Arrow type that Spark wants."""
        offsets = pa.array(self.row_offsets.astype(np.int32))
        return pa.MapArray.from_arrays(offsets, self.names, self.values, type=kind)

    def as_json(self) -> pa.Array:
        """The rows as text, a JSON object each."""
        pairs = list(zip(self.names.to_pylist(), self.values.to_pylist(), strict=True))
        ends = self.row_offsets.tolist()
        texts = [orjson.dumps(dict(pairs[start:end])) for start, end in pairwise(ends)]
        return pa.array(texts, pa.binary()).view(STRING)

    def column(self, name: str) -> pa.Array:
        """The value of one property in each row, null where it has none."""
        found = self._entries_named(name)
        picked = np.full(len(self.texts), -1, np.int64)
        picked[self._entry_rows[found]] = found
        return self.values.take(pa.array(picked, mask=picked < 0))

    @cached_property
    def _entry_rows(self) -> Longs:
        counts = np.diff(self.row_offsets)
        return np.repeat(np.arange(len(self.texts)), counts)

    @cached_property
    def _name_codes(self) -> tuple[npt.NDArray[np.int32], dict[str, int]]:
        """Each entry's name as a small number, and the number of each name."""
        encoded = self.names.dictionary_encode()
        codes = np.asarray(encoded.indices)
        return codes, {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}

    def _entries_named(self, name: str) -> Longs:
        codes, names = self._name_codes
        return np.flatnonzero(codes == names.get(name, -1))

    def _drop_repeats(self) -> None:
        """Keep only the last entry of each name in a row; nearly always all are kept."""
        codes, names = self._name_codes
        cells = self._entry_rows * max(len(names), 1) + codes
        if _all_differ(cells, len(self.texts) * len(names)):
            return
        # Backwards, because unique keeps the first that it meets.
        kept = len(cells) - 1 - np.unique(cells[::-1], return_index=True)[1]
        kept.sort()
        counts = np.bincount(self._entry_rows[kept], minlength=len(self.texts))
        self.names = self.names.take(pa.array(kept))
        self.values = self.values.take(pa.array(kept))
        self.row_offsets = np.concatenate(([0], np.cumsum(counts)))
        for stale in ("_entry_rows", "_name_codes"):
            self.__dict__.pop(stale, None)


def _all_differ(cells: Longs, bound: int) -> bool:
    """Whether no number below `bound` stands twice."""
    if bound > _CELLS_MAX:
        return len(np.unique(cells)) == len(cells)
    return len(cells) == 0 or int(np.bincount(cells).max()) <= 1


def _split(octets: npt.NDArray[np.uint8], rows: Longs) -> tuple[Span, Span]:
    """Names and values of all entries of all rows, ascending.

    Args:
        octets: the rows' bytes.
        rows: where each row starts, and where the last one ends.
    """
    first, last = rows[0], rows[-1]
    cuts = first + np.flatnonzero(octets[first:last] == _ENTRY_END)
    # Sorted starts and sorted ends pair up: entries do not overlap, and an empty one is dropped.
    starts = np.sort(np.concatenate((rows[:-1], cuts + 1)), kind="stable")
    ends = np.sort(np.concatenate((rows[1:], cuts)), kind="stable")
    marks = first + np.flatnonzero(octets[first:last] == _NAME_END)
    at = np.searchsorted(marks, starts)
    middles = np.append(marks, last)[at]
    whole = (ends - starts >= _ENTRY_SIZE_MIN) & (middles > starts) & (middles < ends - 1)
    starts, middles, ends = starts[whole], middles[whole], ends[whole]
    return Span(starts, middles), Span(middles + 1, ends)
