"""The positions of a log: the rule that confirms, and the order that always holds."""

import pytest

from cometmq.store.file_chain import FileChain
from cometmq.store.log_file import LogFile
from cometmq.store.positions import Positions
from tests.support.fake_disk import FakeDisk


def positions_of(*, needs_flush: bool) -> Positions:
    disk = FakeDisk()
    chain = FileChain(disk, ["/log"], 1_000)
    chain.append(LogFile(disk, "/log/0", start=0, size=1_000))
    return Positions(chain, needs_flush=needs_flush)


def test_with_asynchronous_flush_what_is_written_is_confirmed():
    positions = positions_of(needs_flush=False)
    positions.wrote(500)
    assert (positions.confirmed, positions.visible_limit(), positions.flushed) == (500, 500, 0)


def test_with_synchronous_flush_what_is_flushed_is_confirmed():
    positions = positions_of(needs_flush=True)
    positions.wrote(500)
    assert positions.confirmed == 0
    positions.flushed_to(300)
    assert (positions.confirmed, positions.visible_limit()) == (300, 300)
    positions.flushed_to(200)
    assert positions.flushed == 300


def test_what_waits_in_memory_is_confirmed_and_not_visible():
    positions = positions_of(needs_flush=False)
    positions.staged(500)
    assert (positions.confirmed, positions.committed, positions.visible_limit()) == (500, 0, 0)
    positions.wrote_staged()
    assert positions.visible_limit() == 500


@pytest.mark.parametrize("needs_flush", [True, False])
def test_what_the_replicas_lack_is_not_confirmed(needs_flush):
    positions = positions_of(needs_flush=needs_flush)
    positions.replicated_to(0, 2)
    positions.wrote(500)
    positions.flushed_to(400)
    assert positions.confirmed == 0
    positions.replicated_to(300, 2)
    assert positions.confirmed == 300
    positions.replicated_to(500, 2)
    assert positions.confirmed == (400 if needs_flush else 500)


def test_a_truncation_takes_all_of_them_back():
    positions = positions_of(needs_flush=False)
    positions.wrote(500)
    positions.flushed_to(400)
    positions.dispatched_to(500)
    positions.go_back(450)
    positions.go_back(450)
    assert (positions.written, positions.committed, positions.flushed) == (450, 450, 400)
    assert (positions.confirmed, positions.dispatched) == (450, 450)


@pytest.mark.parametrize(
    "step",
    [
        lambda positions: positions.wrote(499),
        lambda positions: positions.wrote(1_001),
        lambda positions: positions.flushed_to(501),
        lambda positions: positions.dispatched_to(501),
        lambda positions: positions.go_back(501),
        lambda positions: positions.begin_at(1_001),
    ],
)
def test_what_cannot_be_is_a_fault_of_ours(step):
    positions = positions_of(needs_flush=False)
    positions.wrote(500)
    with pytest.raises(AssertionError):
        step(positions)
