"""Peers that ask and never read what they are answered: what they make a broker hold is bounded, and comes back."""

import contextlib

from tests.attacks.stranger import Stranger
from tests.support.good_client import GoodClient
from tests.support.load import pull_frame, read_queue, send_all
from tests.support.memory import MemoryWatch
from tests.support.processes import Program, wait_until

TOPIC = "Deaf"
PULLERS = 120


def test_pullers_that_never_read_cost_a_bounded_memory_that_comes_back(broker):
    """120 connections ask for 15 MB each and read nothing; a good client and one that reads slowly are served."""
    bodies = [bytes([number]) * 60_000 for number in range(16)]
    send_all(broker.address, TOPIC, bodies, queues=1)
    question = b"".join(pull_frame(TOPIC, 0, 0, opaque=opaque) for opaque in range(64))
    watch = MemoryWatch(broker.pid)
    with contextlib.ExitStack() as left, GoodClient(broker.address, broker.pid) as good, watch:
        for _ in range(PULLERS):
            deaf = left.enter_context(Stranger(broker.address))
            with contextlib.suppress(ConnectionError):
                deaf.socket.sendall(question)
        with contextlib.suppress(TimeoutError):  # Or the memory would not be looked at.
            wait_until(lambda: is_said(broker), seconds=20, what="a line about it")
        assert [body for _, body in read_queue(broker.address, TOPIC, 0)] == bodies
    good.check()
    watch.check()
    watch.check_back()
    assert is_said(broker)


def is_said(broker: Program) -> bool:
    return "answers that the peer has not read" in broker.log.read_text()
