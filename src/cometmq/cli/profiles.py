"""`cometmq profile`: clusters by name, with their addresses, TLS and keys."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from cometmq.cli import complete, profile_files
from cometmq.cli.asking import Command, Lines, Shown, made_command, prints, prints_list
from cometmq.cli.options import Yes, confirm, keyword
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


Tls = Annotated[
    bool | None, typer.Option("--tls/--no-tls", help="Whether all connections are encrypted.")
]
# By option, the key of a file in a profile.
_KEYS = {"ca_file": "caFile", "cert_file": "certFile", "key_file": "keyFile"}
_OPTIONS = {
    "nameserver": Nameservers,
    "tls": Tls,
    "ca_file": CaFile,
    "cert_file": CertFile,
    "key_file": KeyFile,
    "access_key": AccessKey,
}


def _takes_values(work: Callable[..., None]) -> Command:
    """Make a command that has the options of a profile's values."""
    options = [keyword(name, kind, None) for name, kind in _OPTIONS.items()]
    return made_command(work, lambda work, **given: work(**given), *options)


class ProfileValues(NamedTuple):
    """The output of `cometmq profile show`.

    Attributes:
        profile: Name of the profile.
        values: Its values, without secrets.
    """

    profile: str
    values: Mapping[str, str]


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
    "There are no profiles. cometmq profile create NAME --nameserver HOST:PORT makes one.",
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
        ProfileValues(name, shown),
        lambda: print_table(("name", "value"), [*shown.items()]),
    )


@profiles.command()
@_takes_values
def create(name: ProfileName, **given: Any) -> None:
    """Create a profile of a cluster; its file can be read by its owner alone."""
    profile_files.write(name, _values({}, given), is_new=True)
    note(
        f"Profile {name} is created. cometmq --profile {name} ... uses it; cometmq profile use {name} makes it the default."
    )


@profiles.command("set")
@_takes_values
def change(name: ProfileName, **given: Any) -> None:
    """Change values of a profile; the others stay."""
    profile_files.write(name, _values(profile_files.read(name), given), is_new=False)
    note(f"Profile {name} is changed.")


def _values(
    old: Mapping[str, str],
    given: Mapping[str, Any],
) -> dict[str, str]:
    """Return the values of a profile: the old ones, replaced by the given options; a key's secret is asked for.

    Raises typer.BadParameter if none is given, or files of TLS without TLS.
    """
    from cometmq.cli.accounts import read_password

    files = {_KEYS[name]: given[name] for name in _KEYS if given[name] is not None}
    values = {key: str(path.absolute()) for key, path in files.items()}
    if given["tls"] is not None:
        values["tls"] = "true" if given["tls"] else "false"
    if files and {**old, **values}.get("tls") != "true":
        raise typer.BadParameter("files of TLS need --tls", param_hint="--tls")
    if given["nameserver"] is not None:
        values["nameserver"] = given["nameserver"]
    if (user := given["access_key"]) is not None:
        values |= {"accessKey": user, "secretKey": read_password(user)}
    if not values:
        raise typer.BadParameter(
            "a profile needs a value, such as --nameserver", param_hint="--nameserver"
        )
    return {**old, **values}


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
