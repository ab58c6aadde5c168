"""Changes of the members of a group on request of an operator: each returns the new membership or raises the reason."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from cometmq.replication.group.member import NotAllowed
from cometmq.replication.group.messages import VOTERS_MAX, MemberPlace, Membership

VOTERS_MIN = 2


def with_places(membership: Membership, places: Sequence[MemberPlace]) -> Membership:
    """Return a membership with its members' places; if it has none, before the first change, with the given ones."""
    return membership if membership.places else replace(membership, places=tuple(places))


def with_learner(membership: Membership, member: str, address: str) -> Membership:
    """Return a membership, which has places, with a new member that only copies the log; its broker id is the first free one.

    Raises:
        NotAllowed: The id or address belongs to a member, another member has not caught up, or the group has nine.
    """
    for place in membership.places:
        if place.member == member:
            raise NotAllowed(
                f"{member} is a member already, at {place.address}; remove it first"
            )
        if place.address == address:
            raise NotAllowed(f"{address} is the address of member {place.member}")
    _check_complete(membership)
    if len(membership.voters) >= VOTERS_MAX:
        raise NotAllowed(f"the group has {VOTERS_MAX} members, and more are not supported")
    taken = {place.broker_id for place in membership.places}
    place = MemberPlace(member, next(each for each in count(1) if each not in taken), address)
    return replace(
        membership,
        learners=(*membership.learners, member),
        places=(*membership.places, place),
    )


def with_vote(membership: Membership, learner: str) -> Membership:
    """Return a membership in which a learner votes; raise NotAllowed if the member is no learner."""
    if learner not in membership.learners:
        raise NotAllowed(f"{learner} is no learner")
    return replace(
        membership,
        voters=(*membership.voters, learner),
        learners=_without(membership.learners, learner),
    )


def without(membership: Membership, member: str, answering: set[str]) -> Membership:
    """Return a membership, which has places, without a member.

    Args:
        membership: The present one.
        member: Id of the member that leaves.
        answering: Ids of the members that the leader hears, its own included.

    Raises:
        NotAllowed: There is no such member, another one has not caught up, a single one would be left, or the others have
            no majority.
    """
    if member not in membership.everyone:
        raise NotAllowed(
            f"there is no member {member}; the members are {', '.join(membership.everyone)}"
        )
    left = replace(
        membership,
        voters=_without(membership.voters, member),
        learners=_without(membership.learners, member),
        places=tuple(each for each in membership.places if each.member != member),
    )
    if member in membership.learners:
        return left
    _check_complete(membership)
    if len(left.voters) < VOTERS_MIN:
        raise NotAllowed(f"a group needs {VOTERS_MIN} members; add one before {member} leaves")
    silent = [each for each in left.voters if each not in answering]
    if len(left.voters) - len(silent) < left.majority:
        raise NotAllowed(
            f"without {member} the group would have no majority, because {', '.join(silent)} does not answer; start it, or "
            "remove it first"
        )
    return left


def _check_complete(membership: Membership) -> None:
    if membership.learners:
        learner = membership.learners[0]
        raise NotAllowed(
            f"members change one at a time, and {learner} has not copied the log yet; wait for it, or remove it"
        )


def _without(members: tuple[str, ...], gone: str) -> tuple[str, ...]:
    return tuple(each for each in members if each != gone)
