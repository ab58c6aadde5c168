"""What a producer was told, and whether the broker keeps it: nothing lost, no gap, no double, no stranger.

A ledger sends numbered bodies, each once and to a known queue, and remembers what was acknowledged.
`check` reads every queue: offsets must be dense, every body one that was sent, none of them twice, and
all that was acknowledged must be there.
"""

import contextlib
import itertools
import json
import socket
import time
from collections import Counter

from tests.support.frames import ask, connect, parts_of, read_frame
from tests.support.load import read_queue, send_frame

OK = 0
QUERY_MESSAGE = 12
GET_MIN_OFFSET = 31
BODY_SIZES = 300  # Bodies have up to so many bytes more than their number.


class Ledger:
    """Sends to one topic, and its books.

    Attributes:
        acknowledged: bodies that were answered with SEND_OK.
        sent: every body that was ever written to a socket.
        codes: how often each answer came.
        read: bodies that were read since `forget_reads`.
    """

    read: set[bytes]

    def __init__(self, topic: str, *, queues: int = 4, padding: int = 0) -> None:
        """`padding` bytes are added to each body."""
        self.topic = topic
        self.queues = queues
        self.acknowledged: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.codes: Counter[int] = Counter()
        self._padding = padding
        self._numbers = itertools.count()
        self._in_flight: dict[int, bytes] = {}
        self.forget_reads()

    def send(self, address: str, count: int) -> list[int]:
        """Send one after the other, each answered before the next; the answers' codes.

        Raises:
            ConnectionError: the broker went away.
        """
        before = self.codes.copy()
        with connect(address) as peer:
            for _ in range(count):
                self._send_one(peer)
                self._take_answer(peer)
        return sorted((self.codes - before).elements())

    def flood(self, address: str, *, window: int, until: int) -> None:
        """Keep `window` sends in flight until so many more are acknowledged; the window stays open.

        Returns with requests unanswered; `abandon` takes what still comes.
        """
        self._peer = connect(address)
        self.flood_on(window=window, until=until)

    def flood_on(self, *, window: int, until: int) -> None:
        """The same, on the connection of the flood before, whose window is still open."""
        enough = len(self.acknowledged) + until
        while len(self.acknowledged) < enough:
            while len(self._in_flight) < window:
                self._send_one(self._peer)
            self._take_answer(self._peer)

    def abandon(self) -> int:
        """Take the answers that still come of a flood whose broker is gone; how many never did."""
        with self._peer, contextlib.suppress(ConnectionError):
            while self._in_flight:
                self._take_answer(self._peer)
        unanswered = len(self._in_flight)
        self._in_flight.clear()
        return unanswered

    def check(self, address: str) -> int:
        """Read everything and compare; how many messages there are."""
        self.forget_reads()
        return self.check_new(address)

    def check_new(self, address: str) -> int:
        """Read on from where the last check ended, and compare; how many messages there are."""
        self.read_on(address)
        lost = self.acknowledged - self.read
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} acknowledged lost"
        return len(self.read)

    def check_keys(self, address: str, count: int) -> None:
        """Ask for `count` acknowledged messages by their key, each of which must be found."""
        for body in sorted(self.acknowledged)[:: max(1, len(self.acknowledged) // count)]:
            fields = {
                "topic": self.topic,
                "key": body.partition(b"-")[0].decode(),
                "maxNum": "8",
                "beginTimestamp": "0",
                "endTimestamp": str((1 << 63) - 1),
            }
            header, found = ask(address, QUERY_MESSAGE, fields)
            assert header["code"] == OK, (fields, header)
            assert body in found

    def forget_reads(self) -> None:
        """The next read begins at the start."""
        self.read = set()
        self._next_offsets = [0] * self.queues

    def read_on(self, address: str) -> None:
        """Read what is new; it must be dense, known, and there once."""
        for queue_id, start in enumerate(self._next_offsets):
            found = read_queue(address, self.topic, queue_id, start=start)
            end = self._next_offsets[queue_id] = start + len(found)
            assert [offset for offset, _ in found] == list(range(start, end))
            bodies = {body for _, body in found}
            twice = len(found) - len(bodies) + len(bodies & self.read)
            assert not twice, f"queue {queue_id}: {twice} messages are there twice"
            self.read |= bodies
        strange = self.read - self.sent
        assert not strange, f"{len(strange)} never sent, as {list(strange)[:3]}"

    def check_left(self, address: str) -> int:
        """Read what retention has left, and compare: only the oldest may be missing; how many."""
        return sum(self._check_left(address, queue_id) for queue_id in range(self.queues))

    def _check_left(self, address: str, queue_id: int) -> int:
        place = {"topic": self.topic, "queueId": str(queue_id)}
        start = int(ask(address, GET_MIN_OFFSET, place)[0]["extFields"]["offset"])
        found = read_queue(address, self.topic, queue_id, start=start)
        offsets = [offset for offset, _ in found]
        assert offsets == list(range(start, start + len(found))), (start, offsets)
        assert {body for _, body in found} <= self.sent
        numbers = [number_of(body) for _, body in found]
        assert numbers == sorted(set(numbers))
        of_queue = {n for n in map(number_of, self.acknowledged) if n % self.queues == queue_id}
        lost = {n for n in of_queue if n >= numbers[0]} - set(numbers)
        assert not lost, f"queue {queue_id}: {len(lost)} newer than the oldest are lost"
        return len(found)

    def _send_one(self, peer: socket.socket) -> None:
        number = next(self._numbers)
        body = b"%d-" % number + b"x" * (number % BODY_SIZES + self._padding)
        self._in_flight[number] = body
        self.sent.add(body)
        queue_id = number % self.queues
        frame = send_frame(
            self.topic,
            body,
            opaque=number,
            queue_id=queue_id,
            queues=self.queues,
            properties=f"KEYS\1{number}\2",
        )
        peer.sendall(frame)

    def _take_answer(self, peer: socket.socket) -> None:
        header = json.loads(parts_of(read_frame(peer))[1])
        body = self._in_flight.pop(header["opaque"])
        self.codes[header["code"]] += 1
        if header["code"] == OK:
            self.acknowledged.add(body)


def number_of(body: bytes) -> int:
    """The number that a body begins with."""
    return int(body.partition(b"-")[0])


def first_accepted(ledger: Ledger, address: str, *, seconds: float) -> float:
    """Send until one is acknowledged again; how many seconds that took.

    Raises:
        AssertionError: none was within `seconds`.
    """
    began = time.monotonic()
    while ledger.send(address, 1) != [OK]:
        assert time.monotonic() - began < seconds, f"no send taken within {seconds} s"
        time.sleep(0.05)
    return time.monotonic() - began
