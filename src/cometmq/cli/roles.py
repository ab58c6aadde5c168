"""`cometmq cluster promote` and `demote`: change the roles of a broker group's members while they run."""

from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli.asking import Clients, ask, changes_if_sure
from cometmq.cli.cluster import cluster
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    BrokerName,
    DryRun,
    Nameserver,
    Yes,
    confirm,
)
from cometmq.cli.output import note
from cometmq.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from cometmq.admin import Promotion

SlaveId = Annotated[
    int | None,
    typer.Option(
        "--slave",
        min=1,
        metavar="ID",
        help="Broker id of the slave. Default: the one with the largest offset.",
    ),
]
NewRole = Annotated[
    str | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="SYNC_MASTER or ASYNC_MASTER. Default: the role of the master, if it answers.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Promote despite the obstacles, which are shown.")
]


@cluster.command()
def promote(
    broker: BrokerName,
    *,
    slave_id: SlaveId = None,
    role: NewRole = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Make a running slave the master; a master that answers hands over everything and becomes a slave.

    It first shows what is lost: nothing if the master answers. An obstacle ends it with status 1, unless with --force.
    """
    if role not in (None, "SYNC_MASTER", "ASYNC_MASTER"):
        raise typer.BadParameter("write SYNC_MASTER or ASYNC_MASTER", param_hint="--role")
    plan = ask(
        nameserver,
        lambda clients: clients.admin.brokers.promotion(broker, slave_id, role=role),
    )
    _show(plan)
    if plan.obstacles and not force:
        note("Nothing was changed; --force promotes the slave despite this.")
        raise typer.Exit(ExitStatus.FOUND)
    if dry_run:
        return
    if plan.losses or plan.obstacles:
        confirm(f"Make {plan.address} the master of {broker}?", yes=yes)
    ask(
        nameserver,
        lambda clients: clients.admin.brokers.promote(
            broker, plan.broker_id, role=role, force=force
        ),
    )
    note(f"{plan.address} is the master of {broker} now.")


def _show(plan: "Promotion") -> None:
    note(
        f"{plan.address} (id {plan.broker_id}) becomes the master of {plan.broker_name}, with brokerRole={plan.role}."
    )
    if plan.is_master_told:
        note(
            f"{plan.master} accepts no messages until it has handed over everything, and becomes its slave. Nothing is lost."
        )
    for sentence in (*plan.losses, *plan.obstacles):
        note(sentence)


@cluster.command()
@changes_if_sure("Make the master of {broker} a slave, so that it accepts no messages?".format)
async def demote(
    clients: Clients,
    broker: BrokerName,
    *,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="Address of a master that another one replaced at the nameserver. Default: the registered master.",
        ),
    ] = None,
    successor: Annotated[
        int | None,
        typer.Option(
            "--successor", min=1, metavar="ID", help="Wait until this slave has everything."
        ),
    ] = None,
) -> str:
    """Make a running master a slave; a group without another master then accepts no messages until one is promoted."""
    number = await clients.admin.brokers.demote(broker, address=address, successor=successor)
    return f"It is a slave with brokerId={number} now; cometmq cluster promote {broker} makes one of its group the master."
