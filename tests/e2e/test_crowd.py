"""Many clients that each wait for their answers: all are served soon, and alike."""

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attacks.crowd import ask_all, ask_in_step, crowd
from tests.support.load import send_all, send_frame
from tests.support.processes import Program
from tests.support.programs import descriptor_limit, small_cluster

TOPIC = "Crowd"
QUESTION = send_frame(TOPIC, b"x" * 100, opaque=1, queue_id=0)
# Of the processor time of the broker's loop; on an idle machine as many seconds pass.
FIRST_SECONDS = 0.3
BACK_SECONDS = 2.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Program]:
    """A broker; this process may have as many connections as it can."""
    with descriptor_limit(), small_cluster(tmp_path) as (_, program):
        send_all(program.address, TOPIC, [b"first"])
        yield program


def clock_of(program: Program) -> Callable[[], float]:
    """The processor time of a program's loop, which a busy machine does not stretch."""
    spent = Path(f"/proc/{program.pid}/schedstat")
    return lambda: int(spent.read_text().split()[0]) / 1e9


def test_a_thousand_that_send_at_once_are_served_soon_and_alike(broker):
    """Each of 1,000 has its first answer within 0.3 s of the loop's time, and nobody twice as many as most have."""
    with crowd(broker.address, 1000) as members:
        ask_in_step(members, QUESTION, answers=20_000, seconds=60, clock=clock_of(broker))
    waited = [member.waited_seconds for member in members if member.waited_seconds is not None]
    had = [member.answers for member in members]
    print(f"first answers within {max(waited):.3f} s; answers {min(had)} to {max(had)}")
    assert len(waited) == 1000, "somebody never had an answer"
    assert max(waited) <= FIRST_SECONDS
    assert sum(had) >= 20_000
    assert max(had) <= 2 * statistics.median(had)


def test_none_of_five_thousand_that_come_back_after_a_restart_waits_long(broker):
    """From its question on none waits for more than 2 s of the loop's time, while those before it go on."""
    broker.kill()
    broker.start()
    members = ask_all(
        broker.address, 5000, QUESTION, asked_at_once=1, seconds=120, clock=clock_of(broker)
    )
    waited = [member.waited_seconds for member in members if member.waited_seconds is not None]
    print(f"answered within {max(waited):.3f} s")
    assert len(waited) == 5000, "somebody never had an answer"
    assert max(waited) <= BACK_SECONDS
