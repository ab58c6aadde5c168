"""`cometmq cluster transfer` and `member`: change the leader and the members of a group that elects its leader."""

from typing import Annotated

import typer

from cometmq.cli.asking import Clients, changes, changes_if_sure
from cometmq.cli.cluster import cluster
from cometmq.cli.options import BrokerName

members = typer.Typer()
cluster.add_typer(
    members,
    name="member",
    help="Add or remove a member of a group that elects its leader.",
    no_args_is_help=True,
)

MemberId = Annotated[
    str, typer.Argument(metavar="MEMBER", help="The id of the member, its dLegerSelfId.")
]


@cluster.command()
@changes
async def transfer(
    clients: Clients,
    broker: BrokerName,
    *,
    to: Annotated[
        str,
        typer.Option("--to", metavar="MEMBER", help="The id of the member that is to lead."),
    ],
) -> str:
    """Let another member of a group that elects its leader lead; no messages are accepted meanwhile, and none is lost."""
    leader = await clients.admin.brokers.transfer(broker, to)
    if leader != to:
        return f"{leader} leads {broker} now: it was elected in place of {to}. Try again."
    return f"{leader} leads {broker} now."


@members.command("add")
@changes
async def add_member(
    clients: Clients,
    broker: BrokerName,
    member: Annotated[
        str,
        typer.Argument(
            metavar="ID-HOST:PORT", help="The new member and its address, as in dLegerPeers."
        ),
    ],
) -> str:
    """Add a member to a group that elects its leader: it copies the log first, and then votes."""
    waits_for = await clients.admin.brokers.add_member(broker, member)
    if waits_for is not None:
        return f"The member was added. It votes as soon as it has the log; now {waits_for}."
    return "The member was added, and votes."


@members.command("remove")
@changes_if_sure("Remove {member} from {broker}, so that it gets no messages any more?".format)
async def remove_member(clients: Clients, broker: BrokerName, member: MemberId) -> str:
    """Remove a member from a group that elects its leader; stop its broker then."""
    left = await clients.admin.brokers.remove_member(broker, member)
    return f"{member} was removed; the members of {broker} are {', '.join(left)}. Stop the broker of {member}."
