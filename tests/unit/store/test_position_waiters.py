"""Group commit: who waits for which offset, and what each is told."""

import pytest

from cometmq.store.file_chain import FileChain
from cometmq.store.log_file import LogFile
from cometmq.store.position_waiters import PositionWaiters
from cometmq.store.positions import Durability, Positions
from tests.support.fake_disk import FakeDisk

OK, DISK_LATE = Durability.OK, Durability.DISK_LATE


class Told(dict):
    """Waiters by name; what they were told."""

    def waiter(self, name: str):
        def on_done(durability: Durability) -> None:
            assert name not in self, f"{name} was told twice"
            self[name] = durability

        return on_done


def positions_of(*, needs_flush: bool, files: int = 1) -> Positions:
    """The positions of a log of so many files of 1,000 bytes."""
    disk = FakeDisk()
    chain = FileChain(disk, ["/log"], 1_000)
    for start in range(0, 1_000 * files, 1_000):
        chain.append(LogFile(disk, f"/log/{start}", start=start, size=1_000))
    return Positions(chain, needs_flush=needs_flush)


class Bench:
    """Waiters, and a log of two files of 1,000 bytes, the first of which is written."""

    def __init__(self, *, needs_flush: bool = True) -> None:
        self.positions = positions_of(needs_flush=needs_flush, files=2)
        self.positions.wrote(1_000)
        self.waiters = PositionWaiters(self.positions)
        self.told = Told()

    def wait(self, end: int, *, deadline: float = 5.0, name: str | None = None) -> None:
        on_done = self.told.waiter(name or str(end))
        self.waiters.wait_confirmed(end, deadline=deadline, on_done=on_done)

    def flush(self, end: int) -> int:
        self.positions.flushed_to(end)
        return self.waiters.advance()


@pytest.fixture
def bench():
    return Bench()


def test_one_flush_serves_all_that_it_covers_and_no_other(bench):
    for end in (100, 200, 300):
        bench.wait(end)
    assert bench.flush(200) == 2
    assert bench.told == {"100": OK, "200": OK}
    bench.flush(299)
    assert "300" not in bench.told
    bench.flush(300)
    assert bench.told["300"] is OK
    assert len(bench.waiters) == 0


def test_who_waits_too_long_is_told_so_once(bench):
    bench.wait(100, deadline=5.0, name="first")
    bench.wait(200, deadline=6.0, name="second")
    bench.waiters.expire(4.9)
    assert bench.told == {}
    bench.waiters.expire(5.0)
    assert bench.told == {"first": DISK_LATE}
    bench.flush(200)
    assert bench.told == {"first": DISK_LATE, "second": OK}


def test_a_failure_is_told_to_all_and_to_whoever_comes_later(bench):
    bench.wait(100, name="before")
    bench.waiters.fail()
    bench.wait(200, name="after")
    assert bench.told == {"before": DISK_LATE, "after": DISK_LATE}


def test_a_waiter_added_late_waits_with_the_one_before_it(bench):
    bench.wait(200, name="early")
    bench.wait(100, deadline=6.0, name="late")
    bench.flush(150)
    assert bench.told == {}
    bench.flush(200)
    assert bench.told == {"early": OK, "late": OK}


def test_a_waiter_that_adds_another_while_it_is_told_is_safe(bench):
    bench.waiters.wait_confirmed(
        100, deadline=5.0, on_done=lambda _: bench.wait(90, deadline=6.0, name="next")
    )
    bench.flush(100)
    assert bench.told == {"next": OK}


def test_without_synchronous_flush_what_is_written_is_confirmed_and_the_device_can_be_waited_for():
    bench = Bench(needs_flush=False)
    bench.wait(1_000)
    assert bench.told == {"1000": OK}
    bench.waiters.wait_flushed(600, deadline=5.0, on_done=bench.told.waiter("device"))
    assert bench.waiters.wants_flush
    bench.flush(599)
    assert "device" not in bench.told
    bench.flush(600)
    assert bench.told["device"] is OK
    assert not bench.waiters.wants_flush


def test_who_waits_for_replicas_is_told_whether_there_were_any(bench):
    bench.positions.replicated_to(0, 1)
    bench.wait(100, deadline=5.0)
    bench.wait(200, deadline=6.0)
    bench.wait(300, deadline=7.0)
    bench.wait(900, deadline=8.0)
    assert bench.flush(300) == 0
    bench.waiters.expire(5.0)
    bench.positions.replicated_to(0, 0)
    bench.waiters.expire(6.0)
    assert bench.told == {"100": Durability.REPLICA_LATE, "200": Durability.NO_REPLICA}
    bench.positions.replicated_to(400, 1)
    assert bench.waiters.advance() == 1
    assert bench.told["300"] is OK
    bench.waiters.expire(8.0)  # The disk is late, too; Java names the replica then.
    assert bench.told["900"] is Durability.REPLICA_LATE


def test_where_too_few_replicas_are_in_sync_that_is_told_at_once_and_what_is_written_is_shown():
    bench = Bench(needs_flush=False)
    bench.positions.replicated_to(0, 2)
    bench.positions.wrote(1_001)
    bench.wait(1_001)
    assert not bench.told
    assert bench.positions.visible_limit() == 1_000
    bench.positions.replicated_to(0, 0)
    assert bench.waiters.advance() == 1
    bench.wait(1_001, name="later")
    assert bench.told == {"1001": Durability.NO_REPLICA, "later": Durability.NO_REPLICA}
    assert bench.positions.visible_limit() == 1_001
    assert bench.positions.confirmed == 1_000


def test_with_synchronous_flush_too_few_replicas_are_told_behind_the_flush(bench):
    bench.positions.replicated_to(0, 0)
    bench.wait(200)
    assert not bench.told
    assert bench.positions.visible_limit() == 0
    assert bench.flush(200) == 1
    assert bench.told == {"200": Durability.NO_REPLICA}
    assert bench.positions.visible_limit() == 200


def test_replicas_have_a_time_of_their_own_and_what_they_lack_then_is_shown(bench):
    bench.waiters.replica_seconds = -2.0  # slaveTimeout is 3 s, syncFlushTimeout 5.
    bench.positions.replicated_to(0, 1)
    bench.wait(100, deadline=5.0)
    bench.wait(200, deadline=5.5)
    bench.waiters.expire(4.0)
    assert not bench.told, "it is not on the device: that may take longer"
    bench.flush(200)
    bench.waiters.expire(3.0)
    assert bench.told == {"100": Durability.REPLICA_LATE}
    assert bench.positions.visible_limit() == 100
    bench.positions.replicated_to(200, 1)
    bench.waiters.advance()
    assert bench.told["200"] is OK
    assert bench.positions.visible_limit() == 200


def test_what_is_confirmed_stays_so_when_a_replica_is_asked_for_later():
    bench = Bench(needs_flush=False)
    bench.positions.replicated_to(300, 1)
    assert bench.positions.confirmed == 1_000
    bench.positions.replicated_to(None, 0)
    assert bench.positions.confirmed == 1_000


def test_who_waits_for_what_a_truncation_took_is_told_and_the_others_wait_on(bench):
    for end in (100, 200, 300):
        bench.wait(end)
    bench.positions.go_back(200)
    bench.waiters.go_back(200)
    assert bench.told == {"300": DISK_LATE}
    assert bench.flush(200) == 2


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
