"""`cometmq acl`: users and policies of Auth 2.0 at every broker, and a test whether a user may send a request."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cometmq.cli.asking import Clients, ask
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver, Yes, confirm
from cometmq.cli.output import (
    note_absent,
    notes,
    print_error,
    print_json,
    print_lines,
    screen,
)
from cometmq.cli.visible import visible
from cometmq.client.admin.account_lines import (
    EntryLine,
    UserLine,
    entry_lines,
    new_entry,
    user_lines,
)
from cometmq.model.errors import CodecError, CometError, SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.model.text import in_quotes

if TYPE_CHECKING:
    from cometmq.client.api.users import UserApi, UserReport
    from cometmq.model.rights import Access

Value = TypeVar("Value")

acl = typer.Typer(help="Users and their permissions (Auth 2.0).", no_args_is_help=True)

UserName = Annotated[str, typer.Argument(metavar="USER", help="The access key.")]
ResourceName = Annotated[
    str,
    typer.Argument(metavar="RESOURCE", help="Topic:NAME, Group:NAME, Cluster:NAME, NAME*, *."),
]
Actions = Annotated[
    list[str],
    typer.Argument(
        metavar="ACTION...", help="Pub, Sub, Get, List, Create, Update, Delete, All."
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        help="Only for requests from this address; may be repeated.",
    ),
]


@acl.callback()
def group() -> None:
    """Do nothing: the callback of the command group `cometmq acl`."""


@acl.command()
def users(*, nameserver: Nameserver = NAMESERVER_DEFAULT, as_json: AsJson = False) -> None:
    """Show users, and the brokers that have each of them with these values."""
    lines = user_lines(_each(nameserver, lambda api, address: api.users(address)))
    print_lines(UserLine, lines, as_json=as_json, nothing="There are no users.")


@acl.command()
def policies(
    user: Annotated[
        str | None, typer.Argument(metavar="USER", help="The user. Default: all users.")
    ] = None,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show the entries of users' policies, and the brokers that have each of them."""
    said = _each(nameserver, lambda api, address: api.policies(address))
    lines = [each for each in entry_lines(said) if user in (None, each.user)]
    print_lines(EntryLine, lines, as_json=as_json, nothing="There are no policies.")


@acl.command()
def create(
    user: UserName,
    *,
    is_super: Annotated[
        bool, typer.Option("--super", help="Create a Super user, who may do everything.")
    ] = False,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Create a user at every broker; the password is prompted for, or read from stdin."""
    kind = "Super" if is_super else "Normal"
    password = _password(user)
    _tell(nameserver, lambda api, address: api.create(address, user, password, kind), f"User {user} is created")  # fmt: skip


@acl.command()
def password(user: UserName, *, nameserver: Nameserver = NAMESERVER_DEFAULT) -> None:
    """Change a user's password at every broker; it is prompted for, or read from stdin."""
    values = {"password": _password(user)}
    _tell(nameserver, lambda api, address: api.update(address, user, values), f"The password of user {user} is changed")  # fmt: skip


@acl.command()
def delete(
    user: UserName, *, nameserver: Nameserver = NAMESERVER_DEFAULT, yes: Yes = False
) -> None:
    """Delete a user and the user's policies at every broker."""
    confirm(f"Delete user {user} and the policies of this user?", yes=yes)
    _tell(
        nameserver, lambda api, address: _delete(api, address, user), f"User {user} is deleted"
    )


async def _delete(api: "UserApi", address: str, user: str) -> None:
    """Delete a user at one broker. Raises SettingsError for an unknown user, for whom brokers would report success."""
    if user not in {told.name for told in await api.users(address)}:
        raise SettingsError(
            f"user {in_quotes(user)} does not exist; cometmq acl users lists the users"
        )
    await api.delete(address, user)


@acl.command()
def allow(
    user: UserName,
    resource: ResourceName,
    actions: Actions,
    *,
    source: Sources = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Allow a user actions on a resource at every broker, replacing the Custom entry of that resource."""
    _put(nameserver, user, new_entry(resource, actions, source or (), is_allowed=True))


@acl.command()
def deny(
    user: UserName,
    resource: ResourceName,
    actions: Actions,
    *,
    source: Sources = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Deny a user actions on a resource at every broker, replacing the Custom entry of that resource."""
    _put(nameserver, user, new_entry(resource, actions, source or (), is_allowed=False))


@acl.command()
def remove(
    user: UserName, resource: ResourceName, *, nameserver: Nameserver = NAMESERVER_DEFAULT
) -> None:
    """Delete the entry of a resource from a user's Custom policy, at every broker."""
    _tell(nameserver, lambda api, address: api.delete_entry(address, user, resource), f"{resource} is removed from the policy of user {user}")  # fmt: skip


@acl.command("test")
def check_right(
    user: UserName,
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="The code of a request: PULL_MESSAGE, or 11.")
    ],
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", help="Topic:NAME, Group:NAME.")
    ],
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="ADDRESS", help="The address that the user's requests come from."
        ),
    ] = "127.0.0.1",
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show, by the policies that each broker reports, whether a user may send a request, and why; status 1 if one refuses it."""
    access = asked_access(code, resource)
    known = _each(nameserver, lambda api, address: api.users(address))
    entries = _each(nameserver, lambda api, address: api.policies(address))
    found = [
        {
            "broker": broker,
            **decided(user, access, source, known[broker], entries[broker]),
        }
        for broker in known
        if broker in entries  # Another one's failure was printed.
    ]
    if as_json:
        print_json(found)
    else:
        for each in found:
            word = "yes" if each["allowed"] else "NO "
            screen().print(visible(f"{word} {each['broker']}: {each['reason']}"), markup=False)
    if not all(each["allowed"] for each in found):
        raise typer.Exit(ExitStatus.FOUND)


# --- requests to all brokers


def _each(
    nameserver: str, work: "Callable[[UserApi, str], Awaitable[Value]]"
) -> dict[str, Value]:
    """Return the answers of masters and slaves by "name:id"; print failures on stderr, but raise one if all fail.

    Also names the brokers that left: they may have other users.
    """
    from cometmq.client.admin.users import each_member
    from cometmq.client.api.users import UserApi

    async def main(clients: Clients) -> Mapping[str, Value | CometError]:
        api = UserApi(clients.instance)
        note_absent(await clients.admin.brokers.missing())
        return await each_member(clients.instance, lambda address: work(api, address))

    said = ask(nameserver, main)
    answers = {name: each for name, each in said.items() if not isinstance(each, CometError)}
    for name, each in said.items():
        if isinstance(each, CometError):
            if not answers:
                raise each
            print_error(f"{name}: {each}")
    return answers


def _tell(
    nameserver: str, work: "Callable[[UserApi, str], Awaitable[None]]", done: str
) -> None:
    """Make a change at each master and slave, print where; raise typer.Exit (3) if one fails, or there is none."""
    from cometmq.client.admin.users import each_member
    from cometmq.client.api.users import UserApi

    async def main(clients: Clients) -> Mapping[str, CometError | None]:
        api = UserApi(clients.instance)
        return await each_member(clients.instance, lambda address: work(api, address))

    said = ask(nameserver, main)
    told = [name for name, each in said.items() if not isinstance(each, CometError)]
    for name, each in said.items():
        if isinstance(each, CometError):
            print_error(f"{name}: {each}")
    if told:
        notes().print(f"{visible(done)} at {', '.join(told)}.", markup=False)
    if len(told) < len(said) or not said:
        raise typer.Exit(ExitStatus.FAILED)


def _put(nameserver: str, user: str, entry: dict[str, Any]) -> None:
    words = "may" if entry["decision"] == "Allow" else "may not"
    text = f"{user} {words} {', '.join(entry['actions'])} {entry['resource']}"
    _tell(nameserver, lambda api, address: api.put_entry(address, user, entry), text)


def _password(user: str) -> str:
    """Return a password from a hidden prompt or stdin, because others can see flags. Raises SettingsError if empty."""
    if sys.stdin.isatty():
        said = str(
            typer.prompt(
                f"Password of {visible(user)}",
                hide_input=True,
                confirmation_prompt=True,
                err=True,
            )
        )
    else:
        said = sys.stdin.readline().rstrip("\n")
    if not said:
        raise SettingsError("no password was given; pass it on stdin, or type it at the prompt")
    return said


# --- rights of a user


class _AnyField(dict[str, str]):
    """Fields of a request, all with the same value: the name of the resource to test."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def get(self, _key: str, _default: Any = None) -> str:
        return self._name

    def __getitem__(self, _key: str) -> str:
        return self._name


def asked_access(code: str, resource: str) -> "Access":
    """Return the first access that a request (name or number of its code) needs to a resource's kind ("Topic:NAME").

    Raises SettingsError if brokers have no such request, it names its resources in its body, the resource is malformed,
    or no right for its kind is needed.
    """
    from cometmq.broker.requests import RULES
    from cometmq.model.codes import RequestCode
    from cometmq.model.rights import Resource

    by_code = {int(rule.code): rule for rule in RULES}
    names = {each.name: int(each) for each in RequestCode}
    number = int(code) if code.isdecimal() else names.get(code.upper(), -1)
    if number not in by_code:
        raise SettingsError(
            f"{in_quotes(code)} is not a request code of a broker; docs/operate/requests.md lists them"
        )
    kind_text, colon, name = resource.partition(":")
    kinds = {each.value.lower(): each for each in Resource}
    kind = kinds.get(kind_text.lower())
    if kind is None or not colon or not name:
        raise SettingsError(
            f"{in_quotes(resource)} is not a resource; write Topic:NAME, Group:NAME or Cluster:NAME"
        )
    rule = by_code[number]
    touched = ", ".join(finder.words for finder in rule.finders) or "nothing"
    try:
        accesses = rule.accesses(_AnyField(name), b"?")
    except CodecError:
        raise SettingsError(
            f"{code} cannot be tested, because it names its resources in its body; it needs rights for: {touched}; "
            "test another request that needs the same right (docs/operate/requests.md)"
        ) from None
    for access in accesses:
        if access.resource is kind:
            return access._replace(name=name)
    raise SettingsError(f"{code} needs no right for a {kind.value}, but for: {touched}")


def decided(
    user: str,
    access: "Access",
    source: str,
    known: "Sequence[UserReport]",
    policies: Mapping[str, Sequence[Any]],
) -> dict[str, Any]:
    """Return a dict: whether a user may access a resource at a broker, the deciding policy entry (or None), and why.

    Raises SettingsError if the source address is invalid, or a policy of the user that is needed to decide.
    """
    from ipaddress import ip_address

    from cometmq.access.policies import read_policies

    try:
        ip_address(source)
    except ValueError:
        raise SettingsError(f"--from {source}: this is not an IP address") from None
    told = next((each for each in known if each.name == user), None)
    if told is None:
        return _decision(False, f"user {in_quotes(user)} does not exist")
    if told.status.lower() != "enable":
        return _decision(False, "the user is disabled")
    if told.kind.lower() == "super":
        return _decision(True, "this is a Super user, who may do everything")
    found = read_policies(list(policies.get(user, ()))).deciding(access, source)
    if found is None:
        return _decision(False, "no entry of a policy matches, so the request is refused")
    policy, entry = found
    words = "allows" if entry.is_allowed else "denies"
    said = f"{policy} entry {entry.resource} {words} {', '.join(entry.action_names)}"
    sources = f" from {', '.join(entry.addresses)}" if entry.addresses else ""
    return _decision(entry.is_allowed, said + sources, policy, entry.resource)


def _decision(
    allowed: bool,
    reason: str,
    policy: str | None = None,
    resource: str | None = None,
) -> dict[str, Any]:
    return {"allowed": allowed, "policy": policy, "resource": resource, "reason": reason}
