"""What may be committed while messages finish in any order."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.consumer.pull.process_queue import ProcessQueue


def test_nothing_is_committed_before_anything_came():
    assert ProcessQueue().next_offset is None


def test_the_smallest_open_offset_is_committed():
    process_queue = ProcessQueue()
    process_queue.add([(10, 1), (11, 1), (12, 1)])
    assert process_queue.next_offset == 10
    process_queue.finish([11])
    assert process_queue.next_offset == 10
    process_queue.finish([10])
    assert process_queue.next_offset == 12
    process_queue.finish([12])
    assert process_queue.next_offset == 13
    assert (process_queue.count, process_queue.size, process_queue.span) == (0, 0, 0)


def test_what_is_not_cached_or_was_finished_is_ignored():
    process_queue = ProcessQueue()
    process_queue.add([(5, 100)])
    process_queue.finish([4])
    process_queue.finish([5])
    process_queue.finish([5])
    assert (process_queue.count, process_queue.next_offset) == (0, 6)


def test_a_message_that_comes_twice_counts_once():
    process_queue = ProcessQueue()
    process_queue.add([(5, 100)])
    process_queue.add([(5, 100), (6, 1)])
    assert (process_queue.count, process_queue.size) == (2, 101)


@given(
    st.sets(st.integers(0, 200), min_size=1).map(sorted),
    st.randoms(),
    st.integers(1, 20),
)
def test_it_never_commits_past_an_open_message_and_ends_past_the_last(offsets, chance, step):
    process_queue = ProcessQueue()
    waiting = list(offsets)
    open_offsets: set[int] = set()
    while waiting or open_offsets:
        if waiting and (not open_offsets or chance.random() < 0.5):
            come, waiting = waiting[:step], waiting[step:]
            process_queue.add((offset, offset) for offset in come)
            open_offsets.update(come)
        else:
            offset = chance.choice(sorted(open_offsets))
            process_queue.finish([offset])
            open_offsets.remove(offset)
        assert process_queue.count == len(open_offsets)
        assert process_queue.size == sum(open_offsets)
        if open_offsets:
            assert process_queue.next_offset == min(open_offsets)
            assert process_queue.span == max(process_queue._order) - min(open_offsets)
    assert process_queue.next_offset == offsets[-1] + 1
