"""`cometmq acl copy`: copies users with passwords and policies from one broker to the master of another.

A CometMQ broker reports no passwords, so `mqadmin copyUser` has none to copy. This command therefore runs on the first
broker's machine, as a user who may read its file of users, takes passwords from there, and sends them to the other.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.asking import Clients, ask
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver
from cometmq.cli.output import print_lines
from cometmq.model.errors import SettingsError

if TYPE_CHECKING:
    from cometmq.access.auth_users import AuthUser


class CopiedUserLine(NamedTuple):
    """A user that was copied, or would be with --dry-run.

    Attributes:
        user: Name of the user.
        type: Super or Normal.
        status: enable or disable.
        entries: Number of entries in the user's policies.
        done: "made" or "changed".
    """

    user: str
    type: str
    status: str
    entries: int
    done: str


def copy_users(
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="BROKER",
            help="Broker to copy from; its users file must be on this machine.",
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="BROKER", help="Master to copy to.")],
    *,
    user: Annotated[
        list[str] | None, typer.Option("--user", help="Only this user; may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes, but do not make them.")
    ] = False,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Copy users with their passwords and policies from one broker to the master of another.

    Existing users are changed; their entries for other resources stay. Passwords are never shown, nor passed as flags.
    """

    async def work(clients: Clients) -> list[CopiedUserLine]:
        told = await clients.admin.brokers.settings(from_)
        folder = told.values.get("authConfigPath")
        if not folder:
            raise SettingsError(
                f"broker {from_} does not report the folder of its users (authConfigPath)"
            )
        users = _users_of(Path(folder) / "auth.json", user or [])
        return await _copy(clients, users, to, is_dry=dry_run)

    print_lines(
        CopiedUserLine,
        ask(nameserver, work),
        as_json=as_json,
        nothing=f"Broker {from_} has no users to copy.",
    )


def _users_of(path: Path, wanted: list[str]) -> list["AuthUser"]:
    from cometmq.access.auth_users import AuthFile

    if not path.exists():
        raise SettingsError(
            f"{path} cannot be read: run this command on the machine of that broker, as an operating system user "
            "who may read the file"
        )
    known = AuthFile(str(path), cluster="", is_authorized=True).current.users
    if missing := sorted(set(wanted).difference(known)):
        raise SettingsError(f"{path} has no user {', '.join(missing)}")
    return [each for name, each in sorted(known.items()) if not wanted or name in wanted]


async def _copy(
    clients: Clients, users: list["AuthUser"], to: str, *, is_dry: bool
) -> list[CopiedUserLine]:
    from cometmq.client.api.users import UserApi

    address = await clients.instance.nameserver_api.member(to)
    api = UserApi(clients.instance)
    there = {told.name for told in await api.users(address)}
    lines = []
    for each in users:
        is_new, values = each.name not in there, each.to_json(with_password=True)
        policies = each.policies.to_json()
        if not is_dry:
            if is_new:
                await api.create(address, each.name, values["password"], values["userType"])
            await api.update(address, each.name, values)
            if policies:
                await api.put_policies(address, each.name, policies)
        entries = sum(len(policy["entries"]) for policy in policies)
        done = "made" if is_new else "changed"
        lines.append(
            CopiedUserLine(each.name, values["userType"], values["userStatus"], entries, done)
        )
    return lines
