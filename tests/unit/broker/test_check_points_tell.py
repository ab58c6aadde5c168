"""Whoever does pop's work is told that there is some, once until somebody looks; no loop, no disk, no second."""

from __future__ import annotations

from tests.unit.broker.test_check_points import Books


def test_work_is_told_once_until_somebody_looks():
    """Two machines do it: each looks when it takes a step, and whichever did not is still woken."""
    books = Books()
    told: list[int] = []
    books.machine.on_work = lambda: told.append(books.now)
    point = books.pop(0, 3)
    books.machine.acknowledge(point.key, [0])
    assert len(told) == 1
    books.machine.look()
    assert len(told) == 1
    books.machine.acknowledge(point.key, [1])
    books.machine.acknowledge(point.key, [2])
    assert len(told) == 2
    books.machine.look()
    books.machine.acknowledge(point.key, [2])  # It is done with: nothing to do.
    assert len(told) == 2
    books.pop(3, 1)
    assert len(told) == 3
