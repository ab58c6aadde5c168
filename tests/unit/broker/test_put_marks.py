"""How far a machine was before each of its writes."""

from __future__ import annotations

from cometmq.broker.inner.put_marks import WRITES_MAX, PutMarks


def test_it_goes_back_to_before_the_first_write_that_goes():
    marks: PutMarks[int] = PutMarks()
    for number in range(10):
        marks.note_put([(number, 100 * number, 100)], number)
    assert marks.go_back(1_000) is None
    assert marks.go_back(999) == 9
    assert marks.go_back(999) is None, "it is gone"
    assert marks.go_back(450) == 4
    marks.note_put([(4, 450, 50), (5, 500, 100)], 40)
    assert marks.go_back(599) == 40
    assert marks.go_back(0) == 0


def test_a_write_of_nothing_is_none_and_only_the_last_are_known():
    marks: PutMarks[int] = PutMarks()
    marks.note_put([], 0)
    assert marks.go_back(0) is None
    for number in range(WRITES_MAX + 5):
        marks.note(number + 1, number)
    assert marks.go_back(0) == 5
