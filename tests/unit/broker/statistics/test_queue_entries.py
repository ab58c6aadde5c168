"""A queue's entries as a service: what becomes of its files while the device is waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.broker.statistics.queues import QueueEntries
from cometmq.codec.headers.console import QueueEntriesRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.steps.steps import Elsewhere
from tests.support.hand_clock import HandClock
from tests.support.store_puts import put, run_jobs
from tests.unit.broker.parts_by_hand import parts_by_hand

REQUEST = QueueEntriesRequest("orders", 0, 0, 5)


@pytest.fixture
def parts(tmp_path: Path):
    """A store whose queue has all its entries in its file."""
    clock = HandClock()
    with parts_by_hand(tmp_path, clock) as parts:
        put(parts.store, *[b"old"] * 10)
        clock.turn(2)
        run_jobs(parts.store)
        yield parts


@pytest.fixture
def entries(parts):
    return QueueEntries(parts)


def begin(steps) -> Elsewhere:
    """The read that they wait for first."""
    waited = next(steps)
    assert isinstance(waited, Elsewhere)
    return waited


def error_of(waited: Elsewhere) -> FileNotFoundError:
    """The error with which a read ends."""
    with pytest.raises(FileNotFoundError) as failed:
        waited.work()
    return failed.value


def finish(steps, result):
    """What the steps give when their read has given this."""
    with pytest.raises(StopIteration) as done:
        steps.send(result)
    return done.value.value


def test_entries_are_those_of_the_file(entries):
    steps = entries.look(REQUEST)
    look = finish(steps, begin(steps).work())
    assert (look.min_offset, look.max_offset, len(look.entries)) == (0, 10, 5)


def test_a_topic_that_is_deleted_meanwhile_is_said_not_to_exist(entries, parts):
    steps = entries.look(REQUEST)
    waited = begin(steps)
    parts.store.delete_topic("orders")
    error = error_of(waited)
    with pytest.raises(RequestError, match="0@orders is not exist") as refused:
        steps.throw(error)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_a_topic_that_is_made_again_meanwhile_shows_its_new_entries(entries, parts):
    steps = entries.look(REQUEST)
    waited = begin(steps)
    parts.store.delete_topic("orders")
    error = error_of(waited)
    put(parts.store, b"new")
    waited = steps.throw(error)
    look = finish(steps, waited.work())
    assert (look.min_offset, look.max_offset, len(look.entries)) == (0, 1, 1)


def test_old_entries_that_go_meanwhile_are_not_shown(entries, parts):
    steps = entries.look(REQUEST)
    queue = parts.store.queue("orders", 0)
    begin(steps)
    queue.min_offset = 5
    with pytest.raises(StopIteration) as done:
        steps.throw(FileNotFoundError())
    look = done.value.value
    assert (look.min_offset, look.max_offset, look.entries) == (5, 10, [])


def test_a_file_that_somebody_removed_is_an_error(entries, tmp_path):
    steps = entries.look(REQUEST)
    waited = begin(steps)
    (tmp_path / "consumequeue" / "orders" / "0" / f"{0:020}").unlink()
    error = error_of(waited)
    with pytest.raises(FileNotFoundError):
        steps.throw(error)
