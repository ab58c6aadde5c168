"""`cometmq up`, which runs a whole cluster on this machine: a nameserver, one or several brokers, and the dashboard."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cometmq.cli.dashboard import PORT as DASHBOARD_PORT
from cometmq.cli.dashboard import Port, add_rows, needs_extra
from cometmq.cli.options import NAMESERVER_DEFAULT
from cometmq.cli.output import notes
from cometmq.cli.running import until_stopped
from cometmq.model.errors import NetError, SettingsError
from cometmq.model.text import printable

if TYPE_CHECKING:
    from cometmq.dashboard import Dashboard
    from cometmq.embedded import AsyncEmbedded
    from cometmq.embedded.several import BrokerProcess, LocalCluster

NAMESERVER_PORT = 9876
BROKER_PORT = 10911

Data = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the messages.")]
HasDashboard = Annotated[
    bool, typer.Option("--dashboard/--no-dashboard", help="Also start the dashboard.")
]
GRPC_PORT = 8081
_ONE_GRPC = "--grpc serves one broker; leave out --brokers or --members, or start brokers with a grpcServerPort each"
_ONE_GROUP = "--members makes one group of brokers; leave out --brokers"
HasGrpc = Annotated[
    bool,
    typer.Option(
        "--grpc",
        help="Also serve gRPC clients (RocketMQ 5); needs pip install 'cometmq[grpc]'.",
    ),
]
Brokers = Annotated[
    int,
    typer.Option(
        min=1,
        max=26,
        metavar="COUNT",
        help="Number of brokers. Each of several has its own process, port (10 above the one before) and log file.",
    ),
]
Members = Annotated[
    int | None,
    typer.Option(
        min=3,
        max=9,
        metavar="COUNT",
        help="Run the members of a group that elects its leader instead, usually 3: as --brokers does, but they keep one log.",
    ),
]


def up(
    *,
    data: Data = Path("cometmq-data"),
    nameserver_port: Port = NAMESERVER_PORT,
    broker_port: Port = BROKER_PORT,
    dashboard_port: Port = DASHBOARD_PORT,
    has_dashboard: HasDashboard = True,
    brokers: Brokers = 1,
    members: Members = None,
    has_grpc: HasGrpc = False,
    grpc_port: Port = GRPC_PORT,
) -> None:
    """Run nameserver, broker and dashboard in one process, for this machine; with --brokers or --members, several processes."""
    from cometmq.embedded import AsyncEmbedded
    from cometmq.embedded.several import LocalCluster, group_members, several_brokers
    from cometmq.net.loop import run

    _prepare()
    is_one = brokers == 1 and members is None
    _check(brokers, members, needs_one=has_grpc and not is_one)
    warnings = _idle(data, brokers, members)
    dashboard = dashboard_port if has_dashboard else None
    if is_one:
        one = AsyncEmbedded(
            data,
            nameserver_port=nameserver_port,
            broker_port=broker_port,
            grpc_port=grpc_port if has_grpc else None,
        )
        run(until_stopped(_stay_up(one, dashboard, warnings)))
    else:
        made = (
            several_brokers(data, brokers, broker_port)
            if members is None
            else group_members(data, members, broker_port)
        )
        several = LocalCluster(data, made, nameserver_port=nameserver_port)
        run(until_stopped(_stay_up(several, dashboard, warnings)))
        if failed := several.failed():
            raise NetError(f"{', '.join(failed)}; the messages are in {data}")
    notes().print(f"Stopped cleanly; the messages are in {data}.")


def _check(brokers: int, members: int | None, *, needs_one: bool) -> None:
    if needs_one:
        raise SettingsError(_ONE_GRPC)
    if members is not None and brokers > 1:
        raise SettingsError(_ONE_GROUP)


def _prepare() -> None:
    """Raise the limit of descriptors, and let the log write warnings to stderr."""
    from cometmq.process.descriptors import raise_limit
    from cometmq.process.log_file import ProgramLog
    from cometmq.process.program_log import LogLevel

    raise_limit()
    line_format = "%(levelname)s %(name)s: %(message)s"
    ProgramLog(os.environ, LogLevel.warning, line_format=line_format, has_audit=False)


def _idle(data: Path, count: int, members: int | None) -> list[str]:
    """Return a warning for each broker, and for a group, that has messages in the folder and does not run."""
    from cometmq.embedded.several import idle_stores, member_stores

    serves = "serves them, too" if members is None else "serves them, in place of --members"
    warnings = [
        f"{name} does not run, so the messages in {store} are not served; --brokers {least} {serves}."
        for least, name, store in idle_stores(data, count if members is None else 0)
    ]
    stores = member_stores(data)
    if members is None and stores:
        warnings.append(
            f"the group that elects its leader does not run, so the messages in {stores[0]} are not served; --members "
            f"{len(stores)} serves them."
        )
    return warnings


async def _stay_up(
    cluster: "AsyncEmbedded | LocalCluster", dashboard_port: int | None, warnings: Sequence[str]
) -> None:
    """Run a cluster, and a dashboard if it has a port, until this is cancelled or all broker processes have ended."""
    from cometmq.embedded.several import LocalCluster

    async with cluster, AsyncExitStack() as stack:
        served: Dashboard | None = None
        why_not: list[str] = []
        if dashboard_port is not None:
            try:
                served = await stack.enter_async_context(_dashboard(cluster, dashboard_port))
            except (NetError, SettingsError) as error:
                # The user asked for the cluster; without the dashboard it is still useful.
                why_not = [f"The dashboard could not start: {error}"]
        notes().print(_welcome(cluster, served))
        for warning in [*warnings, *why_not]:
            notes().print(warning, style="yellow", markup=False)
        if isinstance(cluster, LocalCluster):
            await cluster.watch(_report_end)
        else:
            await asyncio.Event().wait()


def _report_end(broker: "BrokerProcess") -> None:
    """Print that a broker has ended by itself, with the end of its log and the command that starts it again."""
    lines = "".join(f"    {printable(line)}\n" for line in broker.last_lines())
    until = (
        "the group has one copy less; if it was the leader, the others elect another one"
        if broker.is_member
        else "its messages are not served"
    )
    notes().print(
        f"{broker.name} {broker.how_it_ended}; the other brokers continue. The end of its log, {broker.log}:\n"
        f"{lines}Until it runs again, {until}. To start it, in another terminal:\n"
        f"  {broker.command}",
        style="red",
        markup=False,
    )


def _dashboard(cluster: "AsyncEmbedded | LocalCluster", port: int) -> "Dashboard":
    """Return a dashboard for this cluster, not started yet, with its files under the cluster's data folder.

    Raises SettingsError if packages of the dashboard are not installed.
    """
    needs_extra()
    from cometmq.dashboard import Dashboard, DashboardSettings
    from cometmq.net.loop import loop_clock

    settings = DashboardSettings(
        nameservers=cluster.nameserver, data_dir=cluster.data_dir / "dashboard", port=port
    )
    return Dashboard(settings, loop_clock())


def _addresses(cluster: "AsyncEmbedded | LocalCluster") -> dict[str, str]:
    """Return the addresses to print: of one broker as "broker" and, if served, "gRPC"; of several by their names."""
    from cometmq.embedded import AsyncEmbedded

    if isinstance(cluster, AsyncEmbedded):
        grpc = {"gRPC": cluster.grpc_address} if cluster.grpc_address else {}
        return {"broker": cluster.broker, **grpc}
    return {each.name: each.address for each in cluster.brokers}


def _welcome(cluster: "AsyncEmbedded | LocalCluster", served: "Dashboard | None") -> Panel:
    where = Table.grid(padding=(0, 2))
    where.add_row("nameserver", Text(cluster.nameserver, style="bold cyan"))
    for name, address in _addresses(cluster).items():
        where.add_row(name, Text(address, style="cyan"))
    where.add_row("data", Text(str(cluster.data_dir)))
    if served is not None:
        add_rows(where, served)
    is_default = cluster.nameserver == NAMESERVER_DEFAULT
    option = "" if is_default else f" -n {cluster.nameserver}"
    steps = Text.assemble(
        "\nIn another terminal:\n",
        (f'  cometmq send greetings "Hello" --tag first{option}\n', "green"),
        (f"  cometmq tail greetings --from earliest{option}\n\n", "green"),
        ("Ctrl-C stops everything cleanly.", "dim"),
    )
    page = Table.grid()
    page.add_row(where)
    page.add_row(steps)
    return Panel(
        page, title="CometMQ is up", title_align="left", expand=False, border_style="dim"
    )
