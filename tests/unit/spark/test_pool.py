"""Clients of a process: shared, and closed when nobody uses them."""

from dataclasses import dataclass

from cometmq.spark.pool import Pool, PoolLimits


@dataclass(eq=False)
class Client:
    is_busy: bool = False
    is_closed: bool = False

    def close(self) -> None:
        self.is_closed = True


LIMITS = PoolLimits(idle_ms=10_000, capacity=3)


def test_one_key_has_one_client():
    pool = Pool()
    assert pool.get("a", Client) is pool.get("a", Client)
    assert pool.get("a", Client) is not pool.get("b", Client)


def test_who_was_idle_too_long_is_closed_when_another_is_asked_for(clock):
    pool = Pool(clock.monotonic)
    idle, used, asked = (pool.get(name, Client, LIMITS) for name in ("a", "b", "c"))
    clock.turn(6)
    pool.get("b", Client, LIMITS)
    clock.turn(5)
    assert pool.get("c", Client, LIMITS) is asked, (
        "the one that is asked for is not idle any more"
    )
    assert (idle.is_closed, used.is_closed, asked.is_closed) == (True, False, False)
    assert pool.get("a", Client, LIMITS) is not idle


def test_one_too_many_closes_the_one_that_was_not_used_longest():
    pool = Pool()
    clients = {name: pool.get(name, Client, LIMITS) for name in "abc"}
    pool.get("a", Client, LIMITS)
    pool.get("d", Client, LIMITS)
    assert [name for name, client in clients.items() if client.is_closed] == ["b"]


def test_who_is_busy_is_never_closed(clock):
    pool = Pool(clock.monotonic)
    busy = pool.get("a", lambda: Client(is_busy=True), LIMITS)
    clock.turn(100)
    for name in "bcde":
        pool.get(name, Client, LIMITS)
    assert not busy.is_closed
    assert pool.get("a", Client, LIMITS) is busy
