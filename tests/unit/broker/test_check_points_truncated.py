"""Pop's books by hand where the log's end is taken back: what lies behind it, and what does not."""

from __future__ import annotations

import pytest

from cometmq.broker.pop.check_points import PointState
from tests.unit.broker.test_check_points import RECORD, Books


class TruncatedBooks(Books):
    """What the journal does then."""

    def truncate(self, count: int, messages: int) -> None:
        """The log ends behind so many records now, the queue behind so many messages."""
        del self.records[count:]
        self.flushed = min(self.flushed, count * RECORD)
        self.start_at = min(self.start_at, count)
        anew = self.machine.truncated(count * RECORD, lambda _topic, _queue: messages)
        self.machine.forget_places(0, count)
        for point in anew:
            self.machine.rewritten(point, self.write("ck", point.body, point.acknowledged))


@pytest.fixture
def books() -> TruncatedBooks:
    return TruncatedBooks()


def test_a_check_point_behind_a_new_end_of_the_log_is_on_record_again(books):
    first, second = books.pop(0, 2), books.pop(2, 2)
    books.machine.acknowledge(second.key, [2])
    books.truncate(1, messages=10)
    assert [(kind, body.start_offset) for kind, body, _ in books.records] == [
        ("ck", 0),
        ("ck", 2),
    ]
    books.flush()
    books.say()
    assert (books.said, books.start_at) == (2, 0), "the second is said when it is done with"
    books.machine.acknowledge(second.key, [3])
    books.put_on_record()
    books.say()
    assert books.said == 4
    books.restart()
    assert books.machine[first.key].left() == (0, 1)
    assert second.key not in books.machine


def test_messages_behind_a_new_end_of_the_log_are_handed_out_no_more(books):
    first, second = books.pop(0, 2), books.pop(2, 2)
    books.truncate(2, messages=1)
    assert first.left() == (0,)
    assert second.state is PointState.DONE
    assert books.next_offset() == 0, "both went beyond what is left"
    books.now += 5_000
    assert books.hand_on() == [0]


def test_an_acknowledgement_behind_a_new_end_of_the_log_holds_and_is_on_record_again(books):
    point = books.pop(0, 3)
    books.machine.acknowledge(point.key, [0])
    books.put_on_record()
    books.truncate(1, messages=10)
    assert point.left() == (1, 2)
    books.restart()
    assert books.machine[point.key].left() == (1, 2)


def test_what_was_handed_on_behind_a_new_end_of_the_log_is_handed_on_again(books):
    point = books.pop(0, 3)
    books.machine.acknowledge(point.key, [1])
    books.now += 2_000
    assert books.hand_on() == [0, 2]
    assert point.state is PointState.DONE
    books.truncate(1, messages=10)
    assert (point.state, point.left()) == (PointState.OPEN, (0, 2))
    assert books.hand_on() == [0, 2]
    assert point.state is PointState.DONE
    books.flush()
    books.say()
    assert (books.said, books.start_at) == (3, len(books.records))


def test_what_was_handed_on_before_a_new_end_of_the_log_stays_so(books):
    point = books.pop(0, 2)
    books.now += 2_000
    assert books.hand_on() == [0, 1]
    later = books.pop(2, 1)
    books.truncate(2, messages=10)
    assert point.state is PointState.DONE
    assert later.left() == (2,)
    assert books.hand_on() == []
