"""`cometmq dashboard`: serves the web pages for operators of a cluster, and manages the users who may log in."""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cometmq.cli import complete, profile_files
from cometmq.cli.asking import Lines, prints_list
from cometmq.cli.options import NAMESERVER_DEFAULT, IgnoreFile, Nameserver
from cometmq.cli.output import note, notes
from cometmq.cli.running import until_stopped
from cometmq.model.errors import SettingsError

if TYPE_CHECKING:
    from cometmq.dashboard import (
        Dashboard,
        DashboardCluster,
        DashboardSettings,
        Role,
        UserFile,
    )
    from cometmq.process.log_file import ProgramLog

_log = logging.getLogger("cometmq.dashboard")

PORT = 8082
FOLDER = Path("cometmq-dashboard")

dashboard = typer.Typer(invoke_without_command=True)
users = typer.Typer()
dashboard.add_typer(
    users, name="user", help="The users who may log in to the dashboard.", no_args_is_help=True
)

Data = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="Folder for its users and its audit log; only its owner may read it.",
    ),
]
Clusters = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PROFILE",
        help="Show the cluster of this profile, whatever --nameserver says; may be repeated. See cometmq profile.",
        autocompletion=complete.profiles,
    ),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free port.")]
Host = Annotated[
    str,
    typer.Option(
        help="Address to listen on. Any address except a loopback address needs a certificate."
    ),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Host name in the URL of browsers; may be repeated."),
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate for HTTPS, PEM.")
]
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM.")]
BehindProxy = Annotated[
    bool,
    typer.Option(
        "--behind-proxy", help="A reverse proxy in front of the dashboard terminates TLS."
    ),
]
Proxies = Annotated[
    list[str] | None,
    typer.Option(
        "--proxy",
        metavar="ADDRESS",
        help="With --behind-proxy: address from which the proxy connects. Default: this machine.",
    ),
]
UserHeader = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Header in which the proxy of --proxy names the user whom it has logged in. Default: users log in here.",
    ),
]
GroupsHeader = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Header in which it lists the user's groups. Default: roles are those of the dashboard's users.",
    ),
]
AdminGroups = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GROUP",
        help="Group of --groups-header whose users may make changes; may be repeated.",
    ),
]
SampleSeconds = Annotated[
    float, typer.Option(min=0.1, max=3600, help="Seconds between two samples of the brokers.")
]
JobFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--jobs",
        metavar="FOLDER",
        help="Folder with the output of Spark jobs; may be repeated.",
    ),
]
UserName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.")]
IsAdmin = Annotated[
    bool | None,
    typer.Option("--admin/--no-admin", help="Whether the user may make changes, or only read."),
]
FromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Set the password that is read from stdin.")
]


@dashboard.callback()
def run_dashboard(
    context: typer.Context,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    cluster: Clusters = None,
    port: Port = PORT,
    host: Host = "127.0.0.1",
    host_name: HostNames = None,
    certificate: Certificate = None,
    key: Key = None,
    behind_proxy: BehindProxy = False,
    proxy: Proxies = None,
    user_header: UserHeader = "",
    groups_header: GroupsHeader = "",
    admin_group: AdminGroups = None,
    data: Data = FOLDER,
    jobs: JobFolders = None,
    sample_seconds: SampleSeconds = 5.0,
    ignore_file: IgnoreFile = None,
) -> None:
    """Serve web pages to look after a cluster: topics, groups, messages, brokers. A login is always required.

    A start without users creates the user admin and prints its password, or the file with it, once.
    """
    if context.invoked_subcommand is not None:
        return
    _run(
        cluster or (),
        nameservers=nameserver,
        data_dir=data,
        host=host,
        port=port,
        host_names=tuple(host_name or ()),
        certificate=certificate,
        key=key,
        is_behind_proxy=behind_proxy,
        proxies=tuple(proxy or ()),
        user_header=user_header,
        groups_header=groups_header,
        admin_groups=tuple(admin_group or ()),
        job_folders=tuple(jobs or ()),
        sample_seconds=sample_seconds,
        ignore_file=ignore_file,
    )


def _run(profiles: Sequence[str], **given: Any) -> None:
    """Serve the dashboard with these `DashboardSettings`, and the clusters of these profiles, until it is stopped."""
    needs_extra()
    from cometmq.dashboard import DashboardSettings
    from cometmq.net.loop import run
    from cometmq.process.log_file import ProgramLog

    settings = DashboardSettings(clusters=_clusters(profiles), **given)
    log = ProgramLog(os.environ)
    run(until_stopped(_serve(settings, log)))


def _clusters(profiles: Sequence[str]) -> "tuple[DashboardCluster, ...]":
    """Return the clusters of profiles; none of them gets keys or TLS settings of the environment."""
    from cometmq import Credentials, TlsSettings
    from cometmq.dashboard import DashboardCluster

    found = []
    for name in profiles:
        values = profile_files.read(name)
        tls = None
        if values.get("tls") == "true":
            ca, cert, key = map(values.get, ("caFile", "certFile", "keyFile"))
            tls = TlsSettings(ca_file=ca, cert_file=cert, key_file=key)
        credentials = None
        if "accessKey" in values:
            token = values.get("securityToken")
            credentials = Credentials(values["accessKey"], values.get("secretKey", ""), token)
        found.append(DashboardCluster(name, values.get("nameserver"), credentials, tls))
    for variable in profile_files.VARIABLES.values() if found else ():
        os.environ.pop(variable, None)
    return tuple(found)


async def _serve(settings: "DashboardSettings", log: "ProgramLog") -> None:
    from cometmq.dashboard import Dashboard
    from cometmq.net.loop import loop_clock
    from cometmq.process.build import running_versions
    from cometmq.process.systemd import notify, ping_watchdog

    stopped = asyncio.Event()
    log.follow_hangups(stopped.set)
    # Its other lines say what these say.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    _log.info("%s", running_versions())
    async with Dashboard(settings, loop_clock()) as served:
        _log.info(
            "the dashboard is at %s; nameserver %s; users and audit in %s",
            served.url, _nameservers(settings), settings.data_dir,
        )  # fmt: skip
        if log.is_json:
            if served.first_password is not None:
                log.print(f"The first user can log in: {_kept_password(served)}")
        else:
            _welcome(served, settings)
        pings = asyncio.create_task(ping_watchdog(), name="dashboard/watchdog")
        notify("READY=1")
        try:
            await stopped.wait()
        finally:
            notify("STOPPING=1")
            pings.cancel()
    _log.info("the dashboard has stopped")


def _welcome(served: "Dashboard", settings: "DashboardSettings") -> None:
    where = Table.grid(padding=(0, 2))
    add_rows(where, served)
    where.add_row("nameserver", Text(_nameservers(settings)))
    where.add_row("data", Text(str(settings.data_dir)))
    notes().print(
        Panel(
            where,
            title="The dashboard is up",
            title_align="left",
            expand=False,
            border_style="dim",
        )
    )


def _nameservers(settings: "DashboardSettings") -> str:
    own = (f"{each.nameservers} ({each.name})" for each in settings.clusters)
    return ", ".join(own) or settings.nameservers or ""


def add_rows(where: Table, served: "Dashboard") -> None:
    """Add the dashboard's address to a table and, if this start created the first user, how to log in.

    If systemd's journal keeps stderr, the first password is written to a file instead, which the table names.
    """
    where.add_row("dashboard", Text(served.url, style="bold cyan"))
    if served.first_password is not None:
        if _goes_to_journal():
            where.add_row("first login", Text(_kept_password(served), overflow="fold"))
            return
        where.add_row(
            "first login", Text(f"{served.first_user}  {served.first_password}", style="bold")
        )
        where.add_row(
            "",
            Text("shown only once; cometmq dashboard user create adds users", style="dim"),
        )


def _kept_password(served: "Dashboard") -> str:
    """Write the first password to a file, because the output is kept; return how to log in."""
    path = served.write_first_password()
    return f"{served.first_user}, with the password in {path}; then delete that file"


def _goes_to_journal() -> bool:
    """Return whether systemd's journal keeps stderr, where others may read it later (systemd.exec, JOURNAL_STREAM)."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    own = os.fstat(sys.stderr.fileno())
    return (device, inode) == (str(own.st_dev), str(own.st_ino))


def needs_extra() -> None:
    """Raise SettingsError, which says how to install them, if packages of the dashboard are missing."""
    from importlib.util import find_spec

    missing = [name for name in ("jinja2", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"the dashboard needs {', '.join(missing)}; run pip install 'cometmq[dashboard]'"
        )


class DashboardUserLine(NamedTuple):
    """A user of the dashboard.

    Attributes:
        user: Name of the user.
        role: "admin" (may make changes) or "reader".
    """

    user: str
    role: str


@users.command("list")
@prints_list(
    DashboardUserLine._fields, "The dashboard has no users; its first start makes one."
)
def list_users(*, data: Data = FOLDER) -> Lines:
    """Show the dashboard's own users."""
    found = _users(data).users().values()
    return Lines([DashboardUserLine(each.name, each.role.value) for each in found])


@users.command()
def create(
    name: UserName,
    *,
    is_admin: IsAdmin = False,
    from_stdin: FromStdin = False,
    data: Data = FOLDER,
) -> None:
    """Create a user of the dashboard; without --password-stdin, print a random password."""
    file, password = _users(data), _password(from_stdin)
    file.create(name, _role(bool(is_admin)), password)
    if not from_stdin:
        print(password)
    note(f"User {name} {'may read and make changes' if is_admin else 'may read'}.")


@users.command("set")
def change(
    name: UserName,
    *,
    is_admin: IsAdmin = None,
    is_new: Annotated[
        bool, typer.Option("--password", help="Set a random password, and print it.")
    ] = False,
    from_stdin: FromStdin = False,
    data: Data = FOLDER,
) -> None:
    """Change the role or the password of a user; what is not given stays. The user's sessions end."""
    if is_admin is None and not is_new and not from_stdin:
        raise typer.BadParameter("name at least one option to change", param_hint="set")
    file = _users(data)
    role = None if is_admin is None else _role(is_admin)
    password = _password(from_stdin) if is_new or from_stdin else None
    file.set(name, role=role, password=password)
    if is_new and not from_stdin:
        print(password)
    note(f"User {name} is changed.")


@users.command()
def delete(name: UserName, *, data: Data = FOLDER) -> None:
    """Delete a user of the dashboard; the user's sessions end."""
    _users(data).delete(name)
    note(f"User {name} is deleted.")


def _users(data: Path) -> "UserFile":
    needs_extra()
    from cometmq.dashboard import UserFile

    return UserFile(data)


def _role(is_admin: bool) -> "Role":
    from cometmq.dashboard import Role

    return Role.ADMIN if is_admin else Role.READER


def _password(from_stdin: bool) -> str:
    """Return the first line of stdin, or a random password."""
    from cometmq.dashboard import new_password

    return sys.stdin.readline().rstrip("\r\n") if from_stdin else new_password()
