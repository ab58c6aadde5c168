"""`cometmq cluster`: what the brokers of a cluster say of themselves; `cometmq broker` starts one. Here: their copies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

from cometmq.cli.asking import Clients, ask_again
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver, Watch
from cometmq.cli.output import print_lines
from cometmq.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from cometmq.client import Replica

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
        state: "master", "alone" (a master that sends wait for in vain), "copying", "late", "stopped", "rival" (another
            broker has its id), "refused" (it answers, but not this question) or "away".
        offset: physical offset behind its last record.
        gap: bytes of the master's log that it lacks.
        behind_s: how much older its newest record is than the master's, seconds.
        error: what is wrong: why it does not copy, or not all, or does not answer.
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
        return self.state in {"master", "copying"} and self.error is None


@cluster.command()
def replicas(
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Show each master and slave, and how far its copy of the log is; status 1 when one is no good copy."""

    async def look(clients: Clients) -> list[ReplicaLine]:
        from cometmq.client.admin.copies import settled_replicas

        lines = lines_of(await settled_replicas(clients.admin.replicas))
        print_lines(
            ReplicaLine, lines, as_json=as_json, nothing="The nameserver knows no broker."
        )
        return lines

    lines = ask_again(nameserver, look, is_watched=watch)
    if not all(line.is_well for line in lines or ()):
        raise typer.Exit(ExitStatus.FOUND)


def lines_of(members: Sequence["Replica"]) -> list[ReplicaLine]:
    """A line for each member, beside what its master says."""
    from cometmq.client.admin.copies import judge_copies

    return [
        ReplicaLine(
            *each.member[:3], each.state, each.offset, each.gap, each.behind_s, each.fault
        )
        for each in judge_copies(members)
    ]
