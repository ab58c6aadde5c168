"""Assessment of replicas: the progress of each member's copy of the log, its faults, and advice.

A slave that seems late may have been queried just before the last message reached it: `settled_replicas` queries again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cometmq.client.results import Replica
from cometmq.codec.bodies.ha_status import (
    STOPPED_WORDS,
    HaGroup,
    HaGroupMember,
    HaMaster,
    HaSlave,
    HaStatus,
)
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.route import MASTER_ID

# Default of haMaxGapNotInSync; a CometMQ master reports whether a slave is in sync.
GAP_MAX = 256 << 20
BEHIND_SECONDS_MAX = 60.0
_LOOK_AGAIN_SECONDS = 2.0

_REPLICATION_PAGE = "docs/operate/replication.md"
_GROUP_PAGE = "docs/operate/elected-group.md"


class ElectedMember(NamedTuple):
    """The place of a broker in a group that elects its leader.

    Attributes:
        member_id: Its id in dLegerPeers.
        role: "leader", "follower", "candidate", or "stopped" (its disk or log failed); None if it does not answer.
        term: Latest term that it knows; None if it does not answer.
        confirmed: Physical offset up to which it knows the log to be stored by a majority; None if it does not answer.
        lease_s: Time for which a leader may acknowledge messages if no other member answers it, seconds; None for others.
        is_connected: Whether the leader is connected to it, or without a leader the answering member of the latest term.
    """

    member_id: str
    role: str | None
    term: int | None
    confirmed: int | None
    lease_s: float | None
    is_connected: bool


class ReplicaCopy(NamedTuple):
    """A member of a broker group with the assessment of its copy of the log.

    Attributes:
        member: The member and its answer.
        state: "master", "alone" (a master that lacks in-sync slaves for its sends), "copying", "late", "stopped", "rival"
            (another broker has its id), "refused" (it refuses the query) or "away" (it gives no valid answer).
        offset: Physical offset after its last record; None if unknown.
        gap: Number of bytes of the master's log that it lacks; None if unknown.
        behind_s: How much older its newest record is than the master's, seconds; None if unknown.
        fault: Description of the fault, the member's own if it reports one; None without one, or if a stopped slave reports none.
        advice: What to do; empty if nothing is wrong, or a registered member did not answer or refused.
        elected: Its place in a group that elects its leader; None if it is not known to be in one.
    """

    member: Replica
    state: str
    offset: int | None = None
    gap: int | None = None
    behind_s: float | None = None
    fault: str | None = None
    advice: str = ""
    elected: ElectedMember | None = None


def is_refusal(error: CometError) -> bool:
    """Return whether an error is a broker's answer that it does not permit this machine or user."""
    return isinstance(error, BrokerRefused) and error.code == ResponseCode.NO_PERMISSION


async def settled_replicas(ask: Callable[[], Awaitable[list[Replica]]]) -> list[Replica]:
    """Return the replication status of all members, queried again after 2 s if one of them seems late."""
    members = await ask()
    if all(copy.state != "late" for copy in judge_copies(members)):
        return members
    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    return await ask()


def judge_copies(members: Sequence[Replica]) -> list[ReplicaCopy]:
    """Compare each member's copy of the log with its master's, and return a `ReplicaCopy` for each, with fault and advice.

    Members of a group that elects its leader are returned, too, if no nameserver lists them.
    """
    masters: dict[str, HaStatus | None] = {}
    groups: dict[str, HaGroup] = {}
    for each in members:
        if each.broker_id == MASTER_ID and each.owner is None:
            masters[each.broker_name] = each.status
        group = None if each.status is None else each.status.group
        if group is not None:
            known = groups.setdefault(each.broker_name, group)
            groups[each.broker_name] = max(known, group, key=_rank)
    copies = [_judge(each, masters, groups.get(each.broker_name)) for each in members]
    for name, group in groups.items():
        of_name = [each for each in copies if each.member.broker_name == name]
        copies += _unlisted(name, group, of_name)
    return sorted(copies, key=lambda copy: copy.member[:2])


def _rank(group: HaGroup) -> tuple[bool, int]:
    """Return a key that orders reports of a group: a leader's report is larger, then the report of a later term."""
    return group.role == "leader", group.term


def _unlisted(
    name: str, group: HaGroup, listed: Sequence[ReplicaCopy]
) -> Iterator[ReplicaCopy]:
    """Yield the members of a group that elects its leader that no nameserver lists, as the group's best report has them."""
    ids = {each.elected.member_id for each in listed if each.elected is not None}
    voters = _voters(group)
    connected = sum(each.is_connected for each in voters)
    for each in group.members:
        if each.member_id in ids:
            continue
        elected = _silent(each)
        member = Replica(name, each.broker_id, each.address, None, each.error)
        if each.is_connected:
            yield ReplicaCopy(member, "copying", each.acked, each.gap, elected=elected)
        else:
            yield ReplicaCopy(
                member, "away", fault=each.error, elected=elected,
                advice=f"start it, or replace it if its disk is lost ({_GROUP_PAGE}): {connected} of {len(voters)} "
                f"members that vote are connected, and the group needs {_majority(group)}",
            )  # fmt: skip


def _voters(group: HaGroup) -> list[HaGroupMember]:
    return [each for each in group.members if each.votes]


def _majority(group: HaGroup) -> int:
    return len(_voters(group)) // 2 + 1


def _judge(
    member: Replica, masters: Mapping[str, HaStatus | None], group: HaGroup | None
) -> ReplicaCopy:
    if member.owner is not None:
        return _judge_rival(member, member.owner)
    status = member.status
    if status is None:
        state = "refused" if member.is_refused else "away"
        # A member that had id 0, the leader's, cannot be identified.
        others = () if group is None else group.members
        silent = [_silent(each) for each in others if each.broker_id == member.broker_id]
        return ReplicaCopy(
            member, state, fault=member.error, elected=silent[0] if silent else None
        )
    master = masters.get(member.broker_name)
    copy = _judge_answer(member, status, master)
    if status.group is None or group is None:
        return copy
    return _judge_elected(copy, status, status.group, group)


def _silent(member: HaGroupMember) -> ElectedMember:
    """Return what others know of a member that does not answer."""
    return ElectedMember(member.member_id, None, None, None, None, member.is_connected)


def _judge_answer(member: Replica, status: HaStatus, master: HaStatus | None) -> ReplicaCopy:
    if status.master is None:
        is_alone = status.needed is not None and status.in_sync_slaves + 1 < status.needed
        if not is_alone:
            return ReplicaCopy(member, "master", status.max_offset, 0, 0.0)
        return ReplicaCopy(
            member, "alone", status.max_offset, 0, 0.0,
            f"sends wait for {status.needed} in-sync members",
            "start its slaves; cometmq cluster replicas shows them",
        )  # fmt: skip
    return _judge_slave(member, status, status.master, master)


def _judge_elected(
    copy: ReplicaCopy, status: HaStatus, own: HaGroup, group: HaGroup
) -> ReplicaCopy:
    """Return the copy of a member of a group that elects its leader, with the faults of such a group.

    Args:
        copy: The copy as that of a master or a slave.
        status: The answer of the member.
        own: The group as this member reports it.
        group: The group as its leader reports it, or without one the member of the latest term.
    """
    by_id = {each.member_id: each for each in group.members}
    is_connected = own.own in by_id and by_id[own.own].is_connected
    lease_s = None if own.lease_ms is None else own.lease_ms / 1000
    elected = ElectedMember(own.own, own.role, own.term, own.confirmed, lease_s, is_connected)
    copy = copy._replace(elected=elected)
    if own.role == "stopped":
        return copy._replace(advice="look at its log and its disk, then restart it")
    leader = by_id.get(group.leader)
    if status.master is not None and leader is not None and own.own not in by_id:
        return copy._replace(
            fault="it is no member of its group",
            advice=f"stop it if it was removed, or add it by cometmq cluster member add ({_GROUP_PAGE})",
        )
    if status.master is None or status.master.is_active:
        return copy
    if leader is None:
        voters = _voters(own)
        others = [each.is_connected for each in voters if each.member_id != own.own]
        needed = _majority(own) - (len(voters) - len(others))
        return copy._replace(
            fault="its group has no leader and accepts no messages: it is connected to "
            f"{sum(others)} of {len(others)} other members that vote, and needs {needed}",
            advice=f"start the others; they must reach each other at the addresses in dLegerPeers ({_GROUP_PAGE})",
        )
    if own.own == group.leader:
        return copy._replace(
            fault="it was elected and does not accept messages yet", advice="read its log"
        )
    return copy._replace(
        fault=f"it is not connected to the leader, {leader.member_id}",
        advice=f"check that it and {leader.address} can reach each other, and read its log",
    )


def _judge_rival(member: Replica, owner: str) -> ReplicaCopy:
    both = f"{owner} and {member.address}"
    if member.broker_id == MASTER_ID:
        fault = f"two brokers run as the master of {member.broker_name}: {both}"
        advice = f"stop the wrong one, and start it as a slave ({_REPLICATION_PAGE})"
    else:
        fault = (
            f"two brokers run with brokerId={member.broker_id} of {member.broker_name}: {both}"
        )
        advice = "give one of them another brokerId"
    return ReplicaCopy(member, "rival", fault=fault, advice=advice)


def _judge_slave(
    member: Replica, status: HaStatus, copied: HaMaster, master: HaStatus | None
) -> ReplicaCopy:
    gap = None if master is None else max(master.max_offset - copied.max_offset, 0)
    behind = None
    if gap == 0:
        behind = 0.0
    elif master is not None and master.stored_ms and status.stored_ms:
        behind = max(master.stored_ms - status.stored_ms, 0) / 1000
    copy = ReplicaCopy(member, "copying", copied.max_offset, gap, behind)
    # A Java slave does not report whether it copies.
    if copied.is_active is False or copied.error:
        _, _, advice = (copied.error or "").partition(STOPPED_WORDS)
        advice = advice or "check that it can reach the master's HA port, and read its log"
        return copy._replace(state="stopped", fault=copied.error, advice=advice)
    if copied.metadata_error:
        return copy._replace(
            fault=copied.metadata_error,
            advice="fix that before promoting it: as master it would lack what was not copied",
        )
    if gap and (_is_too_far(member, gap, master) or (behind or 0.0) > BEHIND_SECONDS_MAX):
        since = "" if behind is None else f" and is {behind:.0f} s behind"
        return copy._replace(
            state="late",
            fault=f"it lacks {gap} bytes of the log{since}",
            advice="check that it is sent more than the log grows by (haCatchUpByteInSecond, "
            "maxHaTransferByteInSecond), and that its disk and network keep up",
        )
    return copy


def _is_too_far(member: Replica, gap: int, master: HaStatus | None) -> bool:
    """Return whether the master reports a slave as not in sync, or without a report, `gap` is at least 256 MiB.

    To the leader of a group that elects it, members beyond a majority are not in sync while it is written to.
    """
    slaves: Sequence[HaSlave] = () if master is None or master.group else master.slaves
    told = [each.is_in_sync for each in slaves if each.broker_id == member.broker_id]
    return not all(told) if told else gap >= GAP_MAX
