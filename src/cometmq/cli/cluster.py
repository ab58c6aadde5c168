"""`cometmq cluster`: what the brokers of a cluster say of themselves; `cometmq broker` starts one. Here: their copies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

from cometmq.cli.asking import Clients, ask_again
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver, Watch
from cometmq.cli.output import print_lines
from cometmq.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from cometmq.client import HaStatus, Replica

cluster = typer.Typer(help="Look at the brokers of a cluster.", no_args_is_help=True)


@cluster.callback()
def group() -> None:
    """Look at the brokers of a cluster."""


class ReplicaLine(NamedTuple):
    """A member of a broker group; what nobody said is None.

    Attributes:
        broker: name of the group.
        id: 0 is the master.
        address: where it listens.
        state: "master", "alone" (a master that sends wait for in vain), "copying", "stopped" or "away".
        offset: physical offset behind its last record.
        gap: bytes of the master's log that it lacks.
        behind_s: how much older its newest record is than the master's, seconds.
        error: why it does not copy, or does not answer.
    """

    broker: str
    id: int
    address: str
    state: str
    offset: int | None
    gap: int | None
    behind_s: float | None
    error: str | None

    @property
    def is_well(self) -> bool:
        """Whether nothing is to be done about it."""
        return self.state in {"master", "copying"}


@cluster.command()
def replicas(
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Show each master and slave, and how far its copy of the log is; status 1 when one does not copy.

    Raises:
        typer.Exit: with that status.
    """
    lines: list[ReplicaLine] = []

    async def look(clients: Clients) -> None:
        lines[:] = lines_of(await clients.admin.replicas())
        print_lines(
            ReplicaLine, lines, as_json=as_json, nothing="The nameserver knows no broker."
        )

    ask_again(nameserver, look, is_watched=watch)
    if not all(line.is_well for line in lines):
        raise typer.Exit(ExitStatus.FOUND)


def lines_of(members: Sequence["Replica"]) -> list[ReplicaLine]:
    """A line for each member, beside what its master says."""
    masters = {each.broker_name: each.status for each in members if each.broker_id == 0}
    return [_line(each, masters.get(each.broker_name)) for each in members]


def _line(member: "Replica", master: "HaStatus | None") -> ReplicaLine:
    status, place = member.status, member[:3]
    if status is None:
        return ReplicaLine(*place, "away", None, None, None, member.error)
    copied = status.master
    if copied is None:
        is_alone = status.needed is not None and status.in_sync_slaves + 1 < status.needed
        why = f"sends wait for {status.needed} members" if is_alone else None
        return ReplicaLine(
            *place, "alone" if is_alone else "master", status.max_offset, 0, 0.0, why
        )
    gap = None if master is None else max(master.max_offset - copied.max_offset, 0)
    behind = None
    if gap == 0:
        behind = 0.0
    elif master is not None and master.stored_ms and status.stored_ms:
        behind = max(master.stored_ms - status.stored_ms, 0) / 1000
    # Java's slaves do not say whether they copy.
    state = "stopped" if copied.is_active is False or copied.error else "copying"
    error = copied.error or copied.metadata_error
    return ReplicaLine(*place, state, copied.max_offset, gap, behind, error)
