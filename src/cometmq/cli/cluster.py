"""The command group `cometmq cluster`, and its command `replicas`: the replication of brokers."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.asking import Clients, ask_again, ask_listed
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver, Watch
from cometmq.cli.output import exit_if_partial, language_name, note_absent, print_lines

if TYPE_CHECKING:
    from cometmq.admin import AbsentBroker, ReplicaCopy

cluster = typer.Typer(help="Show and change the brokers of a cluster.", no_args_is_help=True)


@cluster.callback()
def group() -> None:
    """Do nothing: the callback of the command group `cometmq cluster`."""


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
        error: Its fault, or why it does not answer or refuses.
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
def producers(
    *,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Only this producer group.")
    ] = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Show the connected producers and their groups; status 1 when a broker does not answer."""

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
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
        print_lines(ProducerLine, lines, as_json=as_json, nothing="No producer is connected.")
        return absent

    ask_listed(nameserver, look, is_watched=watch)


@cluster.command()
def replicas(
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Show each master and slave, and how far its copy of the log is; status 1 if one is late, stopped, away or has a fault."""

    async def look(clients: Clients) -> bool:
        lines = lines_of(await clients.admin.brokers.copies())
        print_lines(
            ReplicaLine,
            lines,
            as_json=as_json,
            nothing="No broker is registered at the nameserver.",
        )
        is_partial = note_absent(await clients.admin.brokers.missing())
        return is_partial or not all(line.is_well for line in lines)

    exit_if_partial(ask_again(nameserver, look, is_watched=watch))


def lines_of(copies: Sequence["ReplicaCopy"]) -> list[ReplicaLine]:
    """Return a line for each of these members or rivals (brokers with a member's id)."""
    return [
        ReplicaLine(
            *each.member[:3], each.state, each.offset, each.gap, each.behind_s, each.fault
        )
        for each in copies
    ]
