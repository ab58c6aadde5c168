"""A million messages that wait for their time: what they cost the broker, and how late they come.

    make bench ARGS="--section timed"
    .venv/bin/python -m bench.timed [--count 1000000] [--ahead 240] [--spread 80] [--system cometmq|java]

Messages of 128 bytes are sent for random milliseconds of a span that begins `ahead` seconds from now, so all of
them wait before the first is due. Printed: anonymous memory while they wait and at most while they are delivered, and
how long after its time each was stored in its topic (p50, p99, the least: below 0 would be too early).
"""

import argparse
import json
import random
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import anonymous_bytes
from bench.systems import COMETMQ, JAVA, Running, running
from tests.support.delays import QUEUES, pull
from tests.support.frames import connect, json_frame, read_frame

TOPIC = "Timed"
SEND_MESSAGE_V2 = 310
IN_FLIGHT = 512
A_WRITE = 32
BODY_SIZE = 128
STAMP_SIZE = 13  # The due time in ms, in front of the body.
SETTLE_SECONDS = 5.0
TIMED_MESSAGES = 1_000_000
# Seconds from the first send until the first is due, and of the span in which they are.
AHEAD, SPREAD = 240.0, 80.0


def frame(number: int, due_ms: int) -> bytes:
    """A send of one message for a time."""
    fields = {
        "a": "timed", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(number % QUEUES),
        "f": "0", "g": str(int(time.time() * 1000)), "h": "0", "j": "0", "k": "false",
        "m": "false", "n": "broker-a",
        "i": f"UNIQ_KEY\1{number:032d}\2TIMER_DELIVER_MS\1{due_ms}\2",
    }  # fmt: skip
    body = str(due_ms).encode().ljust(BODY_SIZE, b"x")
    return json_frame(SEND_MESSAGE_V2, fields, body, opaque=number)


def send_all(address: str, dues: Sequence[int]) -> None:
    """Send a message for each time, with a window; every answer must say that it is stored."""
    room = threading.Semaphore(IN_FLIGHT)
    refused: list[bytes] = []

    def take_answers(peer: socket.socket) -> None:
        for _ in dues:
            answer = read_frame(peer)
            if b'"code":0' not in answer:
                refused.append(answer)
            room.release()

    with connect(address) as peer:
        reader = threading.Thread(target=take_answers, args=(peer,), daemon=True)
        reader.start()
        for start in range(0, len(dues), A_WRITE):
            some = dues[start : start + A_WRITE]
            for _ in some:
                room.acquire()
            peer.sendall(b"".join(frame(start + at, due) for at, due in enumerate(some)))
        reader.join()
    if refused:
        raise RuntimeError(f"{len(refused)} sends were refused; the first: {refused[0]!r:.500}")


def lateness_ms(address: str) -> list[int]:
    """How long after its time each message was stored, sorted."""
    late = []
    with connect(address) as peer:
        for queue_id in range(QUEUES):
            offset = 0
            while records := pull(peer, TOPIC, queue_id, offset):
                offset = records[-1].queue_offset + 1
                late += [each.store_timestamp - int(each.body[:STAMP_SIZE]) for each in records]
    return sorted(late)


def measure(system: Running, count: int, *, ahead: float, spread: float) -> dict[str, float]:
    """Send, wait, and look."""
    address, group = system.broker.address, system.group
    empty = anonymous_bytes(group)
    began = time.time()
    chance = random.Random(1)
    first_ms = int((began + ahead) * 1000)
    send_all(address, [first_ms + int(chance.random() * spread * 1000) for _ in range(count)])
    sent_seconds = time.time() - began
    time.sleep(SETTLE_SECONDS)
    if time.time() * 1000 > first_ms:
        raise RuntimeError(f"sending took {sent_seconds:.0f} s: give more time with --ahead")
    waiting = peak = anonymous_bytes(group)
    while time.time() < began + ahead + spread + SETTLE_SECONDS:
        time.sleep(1)
        peak = max(peak, anonymous_bytes(group))
    late = lateness_ms(address)
    return {
        "sent_per_second": round(count / sent_seconds),
        "empty_bytes": empty,
        "waiting_bytes": waiting,
        "peak_bytes": peak,
        "delivered": len(late),
        "least_ms": late[0],
        "p50_ms": late[len(late) // 2],
        "p99_ms": late[len(late) * 99 // 100],
    }


def do_timed(
    system: str = COMETMQ,
    count: int = TIMED_MESSAGES,
    ahead: float = AHEAD,
    spread: float = SPREAD,
) -> dict[str, float]:
    """Measure a system that was just started.

    Raises:
        RuntimeError: not every message was delivered, or one before its time.
    """
    with (
        tempfile.TemporaryDirectory(prefix="cometmq-timed-") as folder,
        running(system, Path(folder)) as started,
    ):
        row = measure(started, count, ahead=ahead, spread=spread)
    print(json.dumps(row), flush=True)
    if row["delivered"] != count or row["least_ms"] < 0:
        raise RuntimeError(f"not each of {count} messages came once and not too early: {row}")
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=TIMED_MESSAGES)
    parser.add_argument("--ahead", type=float, default=AHEAD)
    parser.add_argument("--spread", type=float, default=SPREAD)
    parser.add_argument("--system", choices=(COMETMQ, JAVA), default=COMETMQ)
    options = parser.parse_args()
    do_timed(options.system, options.count, options.ahead, options.spread)


if __name__ == "__main__":
    main()
