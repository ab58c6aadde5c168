"""Shares of queues: every member works out the same, and nothing is left over or taken twice."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.allocation import allocate_averagely
from cometmq.model.queue import MessageQueue

QUEUES = st.lists(
    st.builds(
        MessageQueue, st.just("T"), st.sampled_from(["b-0", "b-1", "b-10"]), st.integers(0, 64)
    ),
    unique=True,
    max_size=40,
)
MEMBERS = st.lists(st.text("abc@#0123", min_size=1, max_size=6), unique=True, min_size=1)


@given(QUEUES, MEMBERS)
def test_shares_are_disjoint_complete_and_even(queues, members):
    shares = [allocate_averagely(queues, members, member) for member in members]
    taken = [queue for share in shares for queue in share]
    assert sorted(taken) == sorted(queues)
    sizes = {len(share) for share in shares}
    assert max(sizes) - min(sizes) <= 1


@given(QUEUES, MEMBERS, st.randoms())
def test_the_order_in_which_one_was_told_does_not_matter(queues, members, chance):
    shuffled, others = list(queues), list(members)
    chance.shuffle(shuffled)
    chance.shuffle(others)
    for member in members:
        assert allocate_averagely(queues, members, member) == allocate_averagely(
            shuffled, others, member
        )


@given(QUEUES, MEMBERS)
def test_java_members_work_out_the_same(queues, members):
    for member in members:
        assert allocate_averagely(queues, members, member) == as_java(queues, members, member)


def as_java(queues, members, own_id):
    """AllocateMessageQueueAveragely of 5.3.3, line by line."""
    queues, members = sorted(queues), sorted(members)
    index = members.index(own_id)
    mod = len(queues) % len(members)
    if len(queues) <= len(members):
        size = 1
    elif mod > 0 and index < mod:
        size = len(queues) // len(members) + 1
    else:
        size = len(queues) // len(members)
    start = index * size if mod > 0 and index < mod else index * size + mod
    count = min(size, len(queues) - start)
    return queues[start : start + max(count, 0)]


def test_a_stranger_gets_nothing():
    assert allocate_averagely([MessageQueue("T", "b", 0)], ["a", "b"], "c") == []
