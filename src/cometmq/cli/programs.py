"""`cometmq up`, `nameserver` and `broker`, which run the servers."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cometmq.cli.dashboard import PORT as DASHBOARD_PORT
from cometmq.cli.dashboard import add_rows, needs_extra
from cometmq.cli.options import NAMESERVER_DEFAULT, Version
from cometmq.cli.output import notes
from cometmq.cli.running import until_stopped
from cometmq.model.errors import NetError, SettingsError

if TYPE_CHECKING:
    from cometmq.dashboard import Dashboard
    from cometmq.embedded import AsyncEmbedded

NAMESERVER_PORT = 9876
BROKER_PORT = 10911

Conf = Annotated[
    str | None,
    typer.Option(
        "-c", "--config", metavar="FILE", help="Configuration file in RocketMQ's format."
    ),
]
PrintsSettings = Annotated[
    bool, typer.Option("-p", "--print", help="Print all effective settings and exit.")
]
# Each setting that is no secret is also a flag, parsed by the programs.
SETTINGS_AS_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}


def up(
    *,
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the messages.")
    ] = Path("cometmq-data"),
    nameserver_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free port.")
    ] = NAMESERVER_PORT,
    broker_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free port.")
    ] = BROKER_PORT,
    dashboard_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free port.")
    ] = DASHBOARD_PORT,
    has_dashboard: Annotated[
        bool, typer.Option("--dashboard/--no-dashboard", help="Also start the dashboard.")
    ] = True,
) -> None:
    """Run nameserver, broker and dashboard in one process, for this machine."""
    from cometmq.embedded import AsyncEmbedded
    from cometmq.net.loop import run
    from cometmq.process.descriptors import raise_limit
    from cometmq.process.log_file import ProgramLog
    from cometmq.process.program_log import LogLevel

    raise_limit()
    line_format = "%(levelname)s %(name)s: %(message)s"
    ProgramLog(os.environ, LogLevel.warning, line_format=line_format, has_audit=False)
    cluster = AsyncEmbedded(data, nameserver_port=nameserver_port, broker_port=broker_port)
    run(until_stopped(_stay_up(cluster, dashboard_port if has_dashboard else None)))
    notes().print(f"Stopped cleanly; the messages are in {data}.")


def nameserver(
    context: typer.Context,
    *,
    conf: Conf = None,
    prints_settings: PrintsSettings = False,
    _version: Version = False,
) -> None:
    """Run a nameserver.

    Each setting that is no secret is also a flag: --listen-port 0 means listenPort=0.
    """
    from cometmq.nameserver.program import run_nameserver

    raise typer.Exit(run_nameserver(conf, context.args, prints_settings=prints_settings))


def broker(
    context: typer.Context,
    *,
    conf: Conf = None,
    nameservers: Annotated[
        str | None,
        typer.Option(
            "--nameserver",
            "-n",
            metavar="HOST:PORT",
            help="Nameserver addresses, like the setting namesrvAddr.",
        ),
    ] = None,
    prints_settings: PrintsSettings = False,
    _version: Version = False,
) -> None:
    """Run a broker.

    Each setting that is no secret is also a flag: --listen-port 0 means listenPort=0.
    """
    from cometmq.broker.__main__ import main

    arguments = ["-c", conf] if conf else []
    arguments += ["-n", nameservers] if nameservers else []
    arguments += ["-p"] if prints_settings else []
    raise typer.Exit(main([*arguments, *context.args]))


async def _stay_up(cluster: "AsyncEmbedded", dashboard_port: int | None) -> None:
    async with cluster, AsyncExitStack() as stack:
        served: Dashboard | None = None
        why_not = ""
        if dashboard_port is not None:
            try:
                served = await stack.enter_async_context(_dashboard(cluster, dashboard_port))
            except (NetError, SettingsError) as error:
                # The user asked for the cluster; without the dashboard it is still useful.
                why_not = f"The dashboard could not start: {error}"
        notes().print(_welcome(cluster, served))
        if why_not:
            notes().print(why_not, style="yellow", markup=False)
        await asyncio.Event().wait()


def _dashboard(cluster: "AsyncEmbedded", port: int) -> "Dashboard":
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


def _welcome(cluster: "AsyncEmbedded", served: "Dashboard | None") -> Panel:
    where = Table.grid(padding=(0, 2))
    where.add_row("nameserver", Text(cluster.nameserver, style="bold cyan"))
    where.add_row("broker", Text(cluster.broker, style="cyan"))
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
