"""`cometmq profile`: clusters by name, with their addresses, TLS and keys."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cometmq.cli import complete, profile_files
from cometmq.cli.asking import Lines, Shown, prints, prints_list
from cometmq.cli.options import Yes, confirm
from cometmq.cli.output import note, print_table

profiles = typer.Typer()

ProfileName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The name of the profile.", autocompletion=complete.profiles
    ),
]

Nameservers = Annotated[
    str | None,
    typer.Option(
        "--nameserver",
        "-n",
        metavar="HOST:PORT",
        help="Nameserver addresses, separated by ';'.",
    ),
]
CaFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="PEM file of the authority to trust.")
]
CertFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="PEM file of the client's certificate.")
]
KeyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="PEM file of the client's private key.")
]
AccessKey = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Sign requests as this user; the secret is prompted for, or read from stdin.",
    ),
]


class ProfileLine(NamedTuple):
    """A profile in the list.

    Attributes:
        profile: Its name.
        nameserver: Nameserver addresses; None: not given.
        tls: Whether connections are encrypted.
        access_key: Access key that signs requests; None: requests are not signed.
        used: Whether commands that name no profile use it.
    """

    profile: str
    nameserver: str | None
    tls: bool
    access_key: str | None
    used: bool


@profiles.command("list")
@prints_list(
    ProfileLine._fields,
    "There are no profiles. cometmq profile add NAME --nameserver HOST:PORT makes one.",
)
def list_profiles() -> Lines:
    """List the profiles, and show which of them, if any, commands without --profile use."""
    return Lines([_line(name, profile_files.read(name)) for name in profile_files.names()])


def _line(name: str, values: dict[str, str]) -> ProfileLine:
    return ProfileLine(
        name,
        values.get("nameserver"),
        values.get("tls") == "true",
        values.get("accessKey"),
        name == profile_files.used(),
    )


@profiles.command()
@prints
def show(name: ProfileName) -> Shown:
    """Show the values of a profile, without its secret."""
    values = profile_files.read(name)
    shown = {key: values[key] for key in values if key not in ("secretKey", "securityToken")}
    return Shown(
        {"profile": name, "values": shown},
        lambda: print_table(("name", "value"), [*shown.items()]),
    )


@profiles.command()
def add(
    name: ProfileName,
    *,
    nameserver: Nameservers = None,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt all connections.")] = False,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
    access_key: AccessKey = None,
) -> None:
    """Add a profile of a cluster; its file can be read by its owner alone."""
    from cometmq.cli.accounts import read_password

    files = {"caFile": ca_file, "certFile": cert_file, "keyFile": key_file}
    values = {key: str(path.absolute()) for key, path in files.items() if path is not None}
    if values and not tls:
        raise typer.BadParameter("files of TLS need --tls", param_hint="--tls")
    if tls:
        values["tls"] = "true"
    if nameserver is not None:
        values["nameserver"] = nameserver
    if not values and access_key is None:
        raise typer.BadParameter(
            "a profile needs a value, such as --nameserver", param_hint="add"
        )
    if access_key is not None:
        values["accessKey"] = access_key
        values["secretKey"] = read_password(access_key)
    profile_files.add(name, values)
    note(
        f"Profile {name} is added. cometmq --profile {name} ... uses it; cometmq profile use {name} makes it the default."
    )


@profiles.command()
def use(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The profile. Default: none.", autocompletion=complete.profiles
        ),
    ] = None,
) -> None:
    """Use a profile, or without NAME none, in later commands that have no --profile."""
    profile_files.use(name)
    note(f"Commands use {f'profile {name}' if name else 'no profile'} now.")


@profiles.command()
def delete(name: ProfileName, *, yes: Yes = False) -> None:
    """Delete a profile with its secret."""
    confirm(f"Delete profile {name}?", yes=yes)
    profile_files.delete(name)
    note(f"Profile {name} is deleted.")
