"""What may be committed while messages finish in any order."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.inflight import Inflight


def test_nothing_is_committed_before_anything_came():
    assert Inflight().next_offset is None


def test_the_smallest_open_offset_is_committed():
    inflight = Inflight()
    inflight.add([(10, 1), (11, 1), (12, 1)])
    assert inflight.next_offset == 10
    inflight.finish([11])
    assert inflight.next_offset == 10
    inflight.finish([10])
    assert inflight.next_offset == 12
    inflight.finish([12])
    assert inflight.next_offset == 13
    assert (inflight.count, inflight.size, inflight.span) == (0, 0, 0)


def test_what_is_not_cached_or_was_finished_is_ignored():
    inflight = Inflight()
    inflight.add([(5, 100)])
    inflight.finish([4])
    inflight.finish([5])
    inflight.finish([5])
    assert (inflight.count, inflight.next_offset) == (0, 6)


def test_a_message_that_comes_twice_counts_once():
    inflight = Inflight()
    inflight.add([(5, 100)])
    inflight.add([(5, 100), (6, 1)])
    assert (inflight.count, inflight.size) == (2, 101)


@given(
    st.sets(st.integers(0, 200), min_size=1).map(sorted),
    st.randoms(),
    st.integers(1, 20),
)
def test_it_never_commits_past_an_open_message_and_ends_past_the_last(offsets, chance, step):
    inflight = Inflight()
    waiting = list(offsets)
    open_offsets: set[int] = set()
    while waiting or open_offsets:
        if waiting and (not open_offsets or chance.random() < 0.5):
            come, waiting = waiting[:step], waiting[step:]
            inflight.add((offset, offset) for offset in come)
            open_offsets.update(come)
        else:
            offset = chance.choice(sorted(open_offsets))
            inflight.finish([offset])
            open_offsets.remove(offset)
        assert inflight.count == len(open_offsets)
        assert inflight.size == sum(open_offsets)
        if open_offsets:
            assert inflight.next_offset == min(open_offsets)
            assert inflight.span == max(inflight._order) - min(open_offsets)
    assert inflight.next_offset == offsets[-1] + 1
