"""`kill -9` of a broker under load loses nothing that a producer saw acknowledged, and leaves no gap.

Real processes, real sockets. A round: start the broker on the store of the round before, send with a full
window until enough is acknowledged, kill it with the window full, count what was acknowledged up to the last
byte that came; start it again and read what is new. In the end everything is read once more from the start.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.frames import parts_of, read_frame
from tests.support.load import read_queue, send_frame
from tests.support.processes import Program

TOPIC = "Killed"
QUEUES = 4
IN_FLIGHT = 256
ACKNOWLEDGED_BEFORE_KILL = 5_000


@dataclass
class Producer:
    """Sends numbered bodies with a full window; knows what was acknowledged."""

    numbers: itertools.count[int] = field(default_factory=itertools.count)
    acknowledged: set[bytes] = field(default_factory=set)
    in_flight: dict[int, bytes] = field(default_factory=dict)

    def send_until_killed(self, broker: Program) -> int:
        """Kill the broker when enough is acknowledged; how many sends were in flight then."""
        self.in_flight.clear()
        enough = len(self.acknowledged) + ACKNOWLEDGED_BEFORE_KILL
        with socket.create_connection(("127.0.0.1", broker.port), timeout=30) as peer:
            while True:
                while len(self.in_flight) < IN_FLIGHT:
                    self.send_one(peer)
                if len(self.acknowledged) >= enough:
                    open_sends = len(self.in_flight)
                    broker.kill()
                    with contextlib.suppress(ConnectionError):
                        while True:
                            self.take_answer(peer)
                    return open_sends
                self.take_answer(peer)

    def send_one(self, peer: socket.socket) -> None:
        number = next(self.numbers)
        body = f"{number}-".encode() + b"x" * (number % 300)
        self.in_flight[number] = body
        peer.sendall(
            send_frame(TOPIC, body, opaque=number, queue_id=number % QUEUES, queues=QUEUES)
        )

    def take_answer(self, peer: socket.socket) -> None:
        header = json.loads(parts_of(read_frame(peer))[1])
        body = self.in_flight.pop(header["opaque"])
        assert header["code"] == 0, header
        self.acknowledged.add(body)


def read_all(broker: Program, starts: dict[int, int]) -> set[bytes]:
    """What is in the queues from `starts` on; moves them. Offsets must follow one another."""
    bodies: set[bytes] = set()
    for queue_id in range(QUEUES):
        found = read_queue(broker.address, TOPIC, queue_id, start=starts[queue_id])
        offsets = [offset for offset, _ in found]
        assert offsets == list(range(starts[queue_id], starts[queue_id] + len(found)))
        starts[queue_id] += len(found)
        bodies.update(body for _, body in found)
    return bodies


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("flush", "rounds"), [("ASYNC_FLUSH", 20), ("SYNC_FLUSH", 3)])
def test_nothing_acknowledged_is_lost_and_no_offset_is_skipped(tmp_path: Path, flush, rounds):
    settings = {"flushDiskType": flush, "defaultTopicQueueNums": QUEUES}
    producer, starts = Producer(), dict.fromkeys(range(QUEUES), 0)
    read: set[bytes] = set()
    with processes.nameserver(tmp_path / "nameserver") as names:
        for _ in range(rounds):
            broker = processes.broker(tmp_path / "broker", names.address, settings=settings)
            with broker:
                read |= read_all(broker, starts)
                assert producer.acknowledged <= read
                assert producer.send_until_killed(broker) >= 100
        with processes.broker(tmp_path / "broker", names.address, settings=settings) as broker:
            read = read_all(broker, dict.fromkeys(range(QUEUES), 0))
    lost = producer.acknowledged - read
    print(
        f"{flush}: {rounds} rounds, {len(producer.acknowledged)} acknowledged, {len(lost)} lost"
    )
    assert len(producer.acknowledged) >= rounds * ACKNOWLEDGED_BEFORE_KILL
    assert not lost
