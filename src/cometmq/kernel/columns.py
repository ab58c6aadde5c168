"""The sends of a turn as columns: for each a row of numbers and places, and no object of it.

    bytes of a connection -> `take_sends` -> rows -> `column_records`: records, queue entries, answers, keys

A row names bytes that lie elsewhere: the body in what was read, the properties in the batch's text, where they stand
without the escapes of JSON. What is unusual in any way is not taken: the careful way looks at it, and at what the
same connection sent behind it (docs/design/0046-columns.md). A batch message is a row for each of its messages, and one
request, which has one answer. Compiled: `_columns`.
"""

from array import array
from typing import Generic

from cometmq.kernel.rows import Arrival, End, Lane, Pending, Put, PutResult


class SendBatch(Generic[End]):
    """Sends that are stored together.

    Attributes:
        count: how many there are.
        request_count: how many requests they came with; a batch message is one.
        packed: how many of them have a place in the log.
        suffix: what stands behind the properties of each in its record.
        lanes: where each goes.
        numbers: of each, fourteen: where its body begins and ends, and its properties, and in those the unique key; its
            tags code, born time in ms, flag, reconsume times, opaque, and whether it is oneway; how many messages its
            request has, 0 behind the first of them; and whether the answer names no unique key.
        origins: of each, which of `buffers` and `hosts` are its.
        places: of each that is packed, its queue offset, physical offset and size.
    """

    WIDTH = 14

    def __init__(self, suffix: bytes) -> None:
        """Begin without sends; `suffix` is what the broker adds to each message's properties."""
        self.count = self.packed = self.request_count = 0
        self.suffix = suffix
        self.lanes: list[Lane[End]] = []
        self.numbers = array("q")
        self.origins = array("q")
        self.places = array("q")
        self.buffers: list[bytes] = []
        self.hosts: list[bytes] = []
        self.text = bytearray()

    def __len__(self) -> int:
        return self.count

    def row(self, index: int) -> "array[int]":
        """The numbers of a send."""
        return self.numbers[index * self.WIDTH : (index + 1) * self.WIDTH]

    def body(self, index: int) -> memoryview:
        """The body of a send, where it was read."""
        start, end = self.numbers[index * self.WIDTH : index * self.WIDTH + 2]
        return memoryview(self.buffers[self.origins[index]])[start:end]

    def host(self, index: int) -> bytes:
        """The host of a send, as records have it."""
        return self.hosts[self.origins[index]]

    def block(self, index: int) -> bytes:
        """The properties of a send as its record has them."""
        return self._own(index) + self.suffix

    def _own(self, index: int) -> bytes:
        start, end = self.numbers[index * self.WIDTH + 2 : index * self.WIDTH + 4]
        return bytes(self.text[start:end])

    def puts(self) -> list[Put[End]]:
        """The sends as puts, an object for each."""
        puts: list[Put[End]] = []
        for index, lane in enumerate(self.lanes):
            *_, tags_code, born_ms, flag, tried, _, _, _, _ = self.row(index)
            puts.append((
                lane[0], lane[1], bytes(self.body(index)), self.block(index), tags_code,
                flag, 0, born_ms, self.host(index), tried, 0, 0,
            ))  # fmt: skip
        return puts

    def requests(self, first: int, last: int) -> list[tuple[int, int]]:
        """Of each request that begins with one of some sends: which is its first, and how many it has."""
        some = range(max(first, 0), min(last, self.count))
        sizes = [(index, self.row(index)[12]) for index in some]
        return [(index, size) for index, size in sizes if size]

    def pending(self, first: int, last: int) -> list[Pending]:
        """The fields needed to answer a range of requests, an object for each."""
        pending: list[Pending] = []
        for index, _ in self.requests(first, last):
            _, _, _, _, key_at, key_end, *_, opaque, is_oneway, _, is_unnamed = self.row(index)
            key = "" if is_unnamed else str(self.text[key_at:key_end], "ascii")
            pending.append((opaque, None if is_oneway else self.lanes[index][2], key))
        return pending

    def results(self, first: int, last: int) -> list[PutResult]:
        """The places of a range of packed sends, an object for each."""
        return [self._place(index) for index in range(max(first, 0), min(last, self.packed))]

    def _place(self, index: int) -> PutResult:
        queue_offset, physical_offset, size = self.places[index * 3 : index * 3 + 3]
        return queue_offset, physical_offset, size

    def arrivals(self) -> list[Arrival[End]]:
        """The queue entries of those that are packed, an object for each."""
        return [
            (self.lanes[index][0], *self._place(index), self.numbers[index * self.WIDTH + 6])
            for index in range(self.packed)
        ]

    def keyed(self) -> list[tuple[bytes, bytes, PutResult]]:
        """The topic blocks, properties and places of packed sends, of which index keys are made."""
        return [
            (self.lanes[index][1], self._own(index), self._place(index))
            for index in range(self.packed)
        ]

    @property
    def start(self) -> int:
        """Physical offset of the first; 0 where none is packed."""
        return self.places[1] if self.packed else 0

    def end_of(self, last: int) -> int:
        """Physical offset behind the first `last` of them.

        Raises:
            IndexError: they are not packed.
        """
        if not 0 < last <= self.packed:
            raise IndexError("a send that is packed")
        _, physical_offset, size = self._place(last - 1)
        return physical_offset + size
