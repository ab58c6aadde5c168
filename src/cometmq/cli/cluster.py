"""The command group `cometmq cluster`, and its command `replicas`: the replication of brokers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli import complete
from cometmq.cli.asking import Clients, Lines, lists
from cometmq.cli.output import language_name

if TYPE_CHECKING:
    from cometmq.admin import ReplicaCopy

cluster = typer.Typer()

# Columns of `ReplicaLine` that are empty without a group that elects its leader; the table leaves them out then.
_OF_GROUPS = ("member", "role", "term", "confirmed", "lease_s", "connected")


class ReplicaLine(NamedTuple):
    """A member or rival of a broker group with the state of its copy; values that are unknown are None.

    Attributes:
        broker: Name of the broker group.
        id: Broker id; 0 is the master.
        address: Address that it listens on.
        state: "master", "alone" (a master that lacks in-sync slaves), "copying", "late", "stopped", "rival"
            (another broker has its id), "refused" (it refuses the query) or "away".
        offset: End of its commit log, a physical offset.
        gap: Bytes of the master's log that it has not copied; 0 for the master.
        behind_s: How much older its newest record is than the master's, seconds.
        member: Its id in dLegerPeers; None, like the next five, outside of groups that elect their leaders.
        role: "leader", "follower", "candidate", or "stopped" (its disk or log failed); None if it does not answer.
        term: Latest term that it knows.
        confirmed: Physical offset up to which it knows the log to be stored by a majority.
        lease_s: Time for which a leader may acknowledge messages if no other member answers it, seconds.
        connected: Whether the leader is connected to it, or without a leader the answering member of the latest term.
        error: Its fault, or why it does not answer or refuses.
    """

    broker: str
    id: int
    address: str
    state: str
    offset: int | None
    gap: int | None
    behind_s: float | None
    member: str | None
    role: str | None
    term: int | None
    confirmed: int | None
    lease_s: float | None
    connected: bool | None
    error: str | None

    @property
    def is_well(self) -> bool:
        """Whether the member's state is "master" or "copying", and it has no fault."""
        return self.state in {"master", "copying"} and self.error is None


class ProducerLine(NamedTuple):
    """A member of a producer group that is connected to brokers.

    Attributes:
        group: Name of the producer group.
        client: Client id.
        address: Address that it connects from.
        language: Language of its client.
        version: RocketMQ version that its client reports, as an ordinal of MQVersion.
        brokers: Brokers whose masters it is connected to.
        seen_ms: Time of its last heartbeat, ms since 1970.
    """

    group: str
    client: str
    address: str
    language: str
    version: int
    brokers: list[str]
    seen_ms: int


@cluster.command()
@lists(ProducerLine._fields, "No producer is connected.")
async def producers(
    clients: Clients,
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="GROUP",
            help="The producer group. Default: all groups.",
            autocompletion=complete.producer_groups,
        ),
    ] = None,
) -> Lines:
    """Show the connected producers and their groups; status 1 when a broker left or does not answer."""
    found, absent = await clients.admin.groups.producers()
    lines = [
        ProducerLine(
            each.group,
            each.client.client_id,
            each.client.address,
            language_name(each.client.language),
            each.client.version,
            list(each.brokers),
            each.seen_ms,
        )
        for each in found
        if group in (None, each.group)
    ]
    return Lines(lines, absent)


@cluster.command()
@lists(ReplicaLine._fields, "No broker is registered at the nameserver.")
async def replicas(clients: Clients) -> Lines:
    """Show each master and slave, and how far its copy of the log is; status 1 unless all are in order.

    In order are a master with the slaves that it needs, and slaves that copy without a fault. Of a group that elects its
    leader, all members must be there.
    """
    lines = lines_of(await clients.admin.brokers.copies())
    missing = await clients.admin.brokers.missing()
    return Lines(
        lines,
        missing,
        is_finding=not all(line.is_well for line in lines),
        hidden=() if any(line.member for line in lines) else _OF_GROUPS,
    )


def lines_of(copies: Sequence["ReplicaCopy"]) -> list[ReplicaLine]:
    """Return a line for each of these members or rivals (brokers with a member's id)."""
    without_group = (None,) * len(_OF_GROUPS)
    return [
        ReplicaLine._make(
            (
                *each.member[:3],
                *(each.state, each.offset, each.gap, each.behind_s),
                *(each.elected or without_group),
                each.fault,
            )
        )
        for each in copies
    ]
