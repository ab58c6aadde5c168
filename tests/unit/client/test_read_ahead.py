"""Answers that come ahead of a caller in another thread: many for one crossing, none lost, none beyond its bound."""

import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from cometmq.client.sync import portal as portals
from cometmq.client.sync.portal import portal
from cometmq.connect import PullStatus, RawPull
from cometmq.model.errors import CometError, NetError


class Source:
    """Gives answers, and knows how many were asked for and whether it was closed."""

    def __init__(
        self, count: int, *, size: int = 0, error: BaseException | None = None
    ) -> None:
        self.count = count
        self.size = size
        self.error = error
        self.given = 0
        self.closed = threading.Event()

    async def answers(self) -> AsyncGenerator[RawPull, None]:
        try:
            for number in range(self.count):
                self.given += 1
                yield RawPull(PullStatus.FOUND, number, 0, self.count, bytes(self.size))
            if self.error is not None:
                raise self.error
        finally:
            self.closed.set()


def test_all_answers_come_in_order_and_many_with_one_call(monkeypatch):
    source = Source(600)
    calls: list[object] = []
    call = portal().call

    def counted(function: Callable[..., Any], *args: Any) -> Any:
        calls.append(function)
        return call(function, *args)

    monkeypatch.setattr(portal(), "call", counted)
    found = [pull.next_offset for pull in portal().iterate_ahead(source.answers)]
    assert found == list(range(600))
    assert len(calls) <= 600 / portals.AHEAD_PULLS + 4
    assert source.closed.is_set()


def test_the_next_answers_are_gathered_meanwhile_and_no_more_than_these(monkeypatch):
    monkeypatch.setattr(portals, "AHEAD_PULLS", 10)
    source = Source(1000)
    answers = portal().iterate_ahead(source.answers)
    next(answers)
    portal().do(str)  # What was begun before has run.
    assert source.given == 20
    answers.close()
    assert source.closed.is_set()
    assert source.given == 20


def test_long_answers_are_held_by_their_bytes():
    source = Source(100, size=portals.AHEAD_BYTES // 2)
    answers = portal().iterate_ahead(source.answers)
    next(answers)
    portal().do(str)
    assert source.given == 4
    answers.close()


@pytest.mark.parametrize("error", [NetError("gone"), ZeroDivisionError("ours")])
def test_an_error_comes_behind_the_answers_before_it(error):
    source = Source(5, error=error)
    found: list[RawPull] = []
    with pytest.raises(type(error), match=str(error)):
        found.extend(portal().iterate_ahead(source.answers))
    # What is no error of the cluster's is a fault of ours: nobody counts on what came before.
    assert len(found) == 0 if not isinstance(error, CometError) else 5
    assert source.closed.is_set()
