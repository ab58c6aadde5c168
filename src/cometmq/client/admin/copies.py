"""Assessment of replicas: the progress of each member's copy of the log, its faults, and advice.

A slave that seems late may have been queried just before the last message reached it: `settled_replicas` queries again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from cometmq.client.results import Replica
from cometmq.codec.bodies.ha_status import STOPPED_WORDS, HaMaster, HaSlave, HaStatus
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.route import MASTER_ID

# Default of haMaxGapNotInSync; a CometMQ master reports whether a slave is in sync.
GAP_MAX = 256 << 20
BEHIND_SECONDS_MAX = 60.0
_LOOK_AGAIN_SECONDS = 2.0

_REPLICATION_PAGE = "docs/operate/replication.md"


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
        advice: What to do; empty if nothing is wrong, or the member did not answer or refused.
    """

    member: Replica
    state: str
    offset: int | None = None
    gap: int | None = None
    behind_s: float | None = None
    fault: str | None = None
    advice: str = ""


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
    """Compare each member's copy of the log with its master's, and return a `ReplicaCopy` for each, with fault and advice."""
    masters: dict[str, HaStatus | None] = {}
    for each in members:
        if each.broker_id == MASTER_ID and each.owner is None:
            masters[each.broker_name] = each.status
    return [_judge(each, masters) for each in members]


def _judge(member: Replica, masters: Mapping[str, HaStatus | None]) -> ReplicaCopy:
    if member.owner is not None:
        return _judge_rival(member, member.owner)
    status = member.status
    if status is None:
        state = "refused" if member.is_refused else "away"
        return ReplicaCopy(member, state, fault=member.error)
    master = masters.get(member.broker_name)
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
    """Return whether the master reports a slave as not in sync, or without a report, `gap` is at least 256 MiB."""
    slaves: Sequence[HaSlave] = () if master is None else master.slaves
    told = [each.is_in_sync for each in slaves if each.broker_id == member.broker_id]
    return not all(told) if told else gap >= GAP_MAX
