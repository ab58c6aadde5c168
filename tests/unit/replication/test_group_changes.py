"""Changes of members that operators request: what follows from them, and what is refused."""

from __future__ import annotations

import pytest

from cometmq.replication.group.changes import (
    with_learner,
    with_places,
    with_vote,
    without,
)
from cometmq.replication.group.member import NotAllowed
from cometmq.replication.group.messages import MemberPlace, Membership, split_place


def group(count: int, learners: tuple[str, ...] = ()) -> Membership:
    voters = tuple(f"n{number}" for number in range(count))
    places = tuple(
        MemberPlace(name, number, f"{name}:1")
        for number, name in enumerate((*voters, *learners), 1)
    )
    return Membership(voters, learners, places)


THREE = group(3)
EVERYONE = {*THREE.voters}


def test_a_new_member_copies_first_and_then_votes():
    added = with_learner(THREE, "n7", "h:7")
    assert (added.voters, added.learners) == (THREE.voters, ("n7",))
    assert added.places[-1] == MemberPlace("n7", 4, "h:7")
    voting = with_vote(added, "n7")
    assert (voting.voters, voting.learners) == ((*THREE.voters, "n7"), ())
    assert voting.places == added.places


def test_a_new_member_gets_the_broker_id_of_one_that_left():
    left = without(THREE, "n1", EVERYONE)
    assert (left.voters, [each.broker_id for each in left.places]) == (("n0", "n2"), [1, 3])
    assert with_learner(left, "n1", "h:7").places[-1] == MemberPlace("n1", 2, "h:7")


def test_a_learner_can_be_given_up():
    assert without(group(3, ("n7",)), "n7", set()) == THREE


def test_before_the_first_change_members_are_where_the_file_has_them():
    bare = Membership(THREE.voters)
    assert with_places(bare, THREE.places) == THREE
    assert with_places(THREE, ()) == THREE


@pytest.mark.parametrize(
    ("membership", "member", "address", "why"),
    [
        (THREE, "n1", "h:7", "n1 is a member already, at n1:1"),
        (group(3, ("n7",)), "n7", "h:8", "n7 is a member already"),
        (THREE, "n7", "n1:1", "n1:1 is the address of member n1"),
        (group(3, ("n7",)), "n8", "h:8", "n7 has not copied the log yet"),
        (group(9), "n9", "h:9", "9 members"),
    ],
)
def test_an_addition_is_refused(membership, member, address, why):
    with pytest.raises(NotAllowed, match=why):
        with_learner(membership, member, address)


@pytest.mark.parametrize(
    ("membership", "member", "answering", "why"),
    [
        (THREE, "n7", EVERYONE, "there is no member n7; the members are n0, n1, n2"),
        (group(3, ("n7",)), "n1", EVERYONE, "n7 has not copied the log yet"),
        (group(2), "n1", {"n0", "n1"}, "a group needs 2 members"),
        (THREE, "n2", {"n0", "n2"}, "no majority, because n1 does not answer"),
    ],
)
def test_a_removal_is_refused(membership, member, answering, why):
    with pytest.raises(NotAllowed, match=why):
        without(membership, member, answering)


def test_a_vote_is_only_given_to_a_learner():
    with pytest.raises(NotAllowed, match="n1 is no learner"):
        with_vote(THREE, "n1")


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".b", "a." * 127])
def test_a_host_that_cannot_be_a_name_is_refused(host):
    """Event loops would raise ValueError for it, where a link expects OSError."""
    with pytest.raises(ValueError, match="a host has at most 253 characters"):
        split_place("n1", f"{host}:1")
