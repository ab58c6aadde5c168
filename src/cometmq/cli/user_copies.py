"""`cometmq acl copy`: copies users with passwords and policies from one broker to the master of another.

A CometMQ broker reports no passwords, so `mqadmin copyUser` has none to copy. This command therefore runs on the first
broker's machine, as a user who may read its file of users, takes passwords from there, and sends them to the other.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli import complete
from cometmq.cli.accounts import acl
from cometmq.cli.asking import Clients, Shown, shows, table
from cometmq.cli.options import BrokerName, DryRun
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


ToBroker = Annotated[
    str,
    typer.Argument(
        metavar="TO",
        help="The broker whose master gets the users.",
        autocompletion=complete.brokers,
    ),
]


@acl.command("copy")
@shows
async def copy_users(
    clients: Clients,
    broker: BrokerName,
    to: ToBroker,
    *,
    user: Annotated[
        list[str] | None,
        typer.Option(
            "--user", help="Only this user; may be repeated.", autocompletion=complete.users
        ),
    ] = None,
    dry_run: DryRun = False,
) -> Shown:
    """Copy users with their passwords and policies from BROKER, whose file of users is on this machine, to the master of TO.

    Existing users are changed; their entries for other resources stay. Passwords are never shown, nor passed as flags.
    """
    folder = (await clients.admin.brokers.settings(broker)).values.get("authConfigPath")
    if not folder:
        raise SettingsError(
            f"broker {broker} does not report the folder of its users (authConfigPath)"
        )
    lines = []
    for each in _users_of(Path(folder) / "auth.json", user or []):
        values, policies = each.to_json(with_password=True), each.policies.to_json()
        is_new = await clients.admin.users.put(to, values, policies, is_dry=dry_run)
        entries = sum(len(policy["entries"]) for policy in policies)
        done = "made" if is_new else "changed"
        lines.append(
            CopiedUserLine(each.name, values["userType"], values["userStatus"], entries, done)
        )
    return table(CopiedUserLine._fields, lines, f"Broker {broker} has no users to copy.")


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
