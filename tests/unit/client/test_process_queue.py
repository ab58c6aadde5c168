"""What may be committed while messages finish in any order."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.consumer.pull.process_queue import ProcessQueue


def test_nothing_is_committed_before_anything_came():
    assert ProcessQueue().next_offset is None


def test_the_smallest_open_offset_is_committed():
    process_queue = ProcessQueue()
    process_queue.add([10, 11, 12], [1, 1, 1])
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
    process_queue.add([5], [100])
    process_queue.finish([4])
    process_queue.finish([5])
    process_queue.finish([5])
    assert (process_queue.count, process_queue.next_offset) == (0, 6)


def test_a_message_that_comes_twice_counts_once():
    process_queue = ProcessQueue()
    process_queue.add([5], [100])
    process_queue.add([5, 6], [100, 1])
    assert (process_queue.count, process_queue.size) == (2, 101)


def test_a_message_that_an_answer_brings_twice_or_too_early_counts_once_in_its_place():
    process_queue = ProcessQueue()
    process_queue.add([7, 5, 7], [70, 50, 70])
    assert (process_queue.count, process_queue.size, process_queue.smallest) == (2, 120, 5)
    process_queue.finish([5])
    assert (process_queue.next_offset, process_queue.cached) == (7, (1, 70))


def test_what_is_finished_together_may_have_come_apart():
    process_queue = ProcessQueue()
    process_queue.add([1, 2], [1, 2])
    process_queue.add([4, 5], [4, 5])
    process_queue.finish([5, 3, 2])
    assert (process_queue.next_offset, process_queue.cached) == (1, (2, 5))
    process_queue.finish([1, 4, 9])
    assert (process_queue.next_offset, process_queue.cached) == (6, (0, 0))


@given(
    st.sets(st.integers(0, 200), min_size=1).map(sorted),
    st.randoms(),
    st.integers(1, 20),
    st.integers(1, 20),
)
def test_it_never_commits_past_an_open_message_and_ends_past_the_last(
    offsets, chance, pulled, given_at_once
):
    process_queue = ProcessQueue()
    waiting = list(offsets)
    jobs: list[list[int]] = []
    came = -1
    while waiting or jobs:
        if waiting and (not jobs or chance.random() < 0.5):
            come, waiting = waiting[:pulled], waiting[pulled:]
            came = come[-1]
            process_queue.add(come, list(come))
            jobs += [come[at : at + given_at_once] for at in range(0, len(come), given_at_once)]
        else:
            job = jobs.pop(chance.randrange(len(jobs)))
            if len(job) > 1 and chance.random() < 0.3:
                # One of them was sent back before the rest.
                one = job.pop(chance.randrange(len(job)))
                process_queue.finish([one])
                jobs.append(job)
            else:
                process_queue.finish(job)
        still_open = [offset for job in jobs for offset in job]
        assert process_queue.cached == (len(still_open), sum(still_open))
        if still_open:
            assert process_queue.next_offset == process_queue.smallest == min(still_open)
            assert process_queue.span == came - min(still_open)
    assert process_queue.next_offset == offsets[-1] + 1
    assert (process_queue.smallest, process_queue.span) == (None, 0)
