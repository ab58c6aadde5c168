"""`cometmq acl`: users and policies of Auth 2.0 at every broker, and a test whether a user may send a request."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cometmq.admin import EntryLine, UserLine
from cometmq.cli import complete
from cometmq.cli.asking import (
    Clients,
    Lines,
    ask,
    changes,
    changes_if_sure,
    lists,
)
from cometmq.cli.options import NAMESERVER_DEFAULT, Nameserver
from cometmq.cli.output import note, note_absent, print_error, print_errors
from cometmq.model.errors import CodecError, SettingsError
from cometmq.model.text import in_quotes, printable

if TYPE_CHECKING:
    from cometmq.admin import AccountsReport
    from cometmq.model.rights import Access

acl = typer.Typer()

UserName = Annotated[
    str, typer.Argument(metavar="USER", help="The access key.", autocompletion=complete.users)
]
ResourceName = Annotated[
    str,
    typer.Argument(metavar="RESOURCE", help="Topic:NAME, Group:NAME, Cluster:NAME, NAME*, *."),
]
Actions = Annotated[
    list[str],
    typer.Argument(metavar="ACTION", help="Pub, Sub, Get, List, Create, Update, Delete, All."),
]
_SOURCE = typer.Option("--source", metavar="ADDRESS", help="Source address of the requests.")
Sources = Annotated[list[str] | None, _SOURCE]
Super = Annotated[
    bool | None,
    typer.Option(
        "--super/--no-super", help="Whether it is a Super user, who may do everything."
    ),
]


class DecisionLine(NamedTuple):
    """Whether a user may send a request to a broker.

    Attributes:
        broker: Member of a broker group, "name:id".
        allowed: Whether the user may.
        reason: Why.
        policy: Policy of the entry that decides, Custom or Default; None without one.
        resource: Resource of that entry.
    """

    broker: str
    allowed: bool
    reason: str
    policy: str | None = None
    resource: str | None = None


@acl.command("list")
@lists(UserLine._fields, "There are no users.")
async def list_users(clients: Clients) -> Lines:
    """Show users, and the brokers that have each of them with these values."""
    return Lines((await _report(clients, with_policies=False)).users)


@acl.command()
@lists(EntryLine._fields, "There are no policies.")
async def show(
    clients: Clients,
    user: Annotated[
        str | None,
        typer.Argument(
            metavar="USER",
            help="The user. Default: all users.",
            autocompletion=complete.users,
        ),
    ] = None,
) -> Lines:
    """Show the entries of users' policies, and the brokers that have each of them; status 1 if some are malformed."""
    report = await _report(clients, with_users=False, policies_of=user)
    return Lines(report.entries, is_finding=print_errors(report.malformed))


@acl.command()
def create(
    user: UserName, *, is_super: Super = False, nameserver: Nameserver = NAMESERVER_DEFAULT
) -> None:
    """Create a user at every broker; the password is prompted for, or read from stdin."""
    text = read_password(user)
    done = ask(
        nameserver,
        lambda clients: clients.admin.users.create(user, text, is_super=bool(is_super)),
    )
    note(_done(f"User {user} is created", done))


@acl.command("set")
def change(
    user: UserName,
    *,
    password: Annotated[
        bool,
        typer.Option("--password", help="Change the password: prompt for it, or read stdin."),
    ] = False,
    is_super: Super = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether the user may log in.")
    ] = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Change the password, type or status of a user at every broker; what is not given stays."""
    values = {}
    if password:
        values["password"] = read_password(user)
    if is_super is not None:
        values["userType"] = "Super" if is_super else "Normal"
    if enable is not None:
        values["userStatus"] = "enable" if enable else "disable"
    if not values:
        raise typer.BadParameter("name at least one option to change", param_hint="set")
    done = ask(nameserver, lambda clients: clients.admin.users.set(user, values))
    note(_done(f"User {user} is changed", done))


@acl.command()
@changes_if_sure("Delete user {user} and the policies of this user?".format)
async def delete(clients: Clients, user: UserName) -> str:
    """Delete a user and the user's policies at every broker."""
    return _done(f"User {user} is deleted", await clients.admin.users.delete(user))


@acl.command()
@changes
async def allow(
    clients: Clients,
    user: UserName,
    resource: ResourceName,
    actions: Actions,
    *,
    source: Sources = None,
) -> str:
    """Allow a user actions on a resource at every broker, replacing the Custom entry of that resource.

    With --source, which may be repeated, only for requests from there.
    """
    done = await clients.admin.users.put_entry(
        user, resource, actions, source or (), is_allowed=True
    )
    return _done(f"{user} may {', '.join(actions)} {resource}", done)


@acl.command()
@changes
async def deny(
    clients: Clients,
    user: UserName,
    resource: ResourceName,
    actions: Actions,
    *,
    source: Sources = None,
) -> str:
    """Deny a user actions on a resource at every broker, replacing the Custom entry of that resource.

    With --source, which may be repeated, only for requests from there.
    """
    done = await clients.admin.users.put_entry(
        user, resource, actions, source or (), is_allowed=False
    )
    return _done(f"{user} may not {', '.join(actions)} {resource}", done)


@acl.command()
@changes
async def remove(clients: Clients, user: UserName, resource: ResourceName) -> str:
    """Delete the entry of a resource from a user's Custom policy, at every broker."""
    done = await clients.admin.users.delete_entry(user, resource)
    return _done(f"{resource} is removed from the policy of user {user}", done)


@acl.command("test")
@lists(DecisionLine._fields, "No broker reports users.")
async def check_right(
    clients: Clients,
    user: UserName,
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="The code of a request: PULL_MESSAGE, or 11.")
    ],
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", help="Topic:NAME, Group:NAME.")
    ],
    *,
    source: Annotated[str, _SOURCE] = "127.0.0.1",
) -> Lines:
    """Show, by the policies that each broker reports, whether a user may send a request, and why; status 1 if one refuses it."""
    access = asked_access(code, resource)
    report = await _report(clients, policies_of=user)
    if report.malformed:
        raise SettingsError(report.malformed[0])
    lines = [decided(user, access, source, broker, report) for broker in report.brokers]
    return Lines(lines, is_finding=not all(line.allowed for line in lines))


async def _report(clients: Clients, **wanted: Any) -> "AccountsReport":
    """Call `users.list` with these arguments; print brokers' errors on stderr, but raise one if no broker answers.

    Also prints on stderr the brokers that left their nameserver: they may have other users.
    """
    note_absent(await clients.admin.brokers.missing())
    report = await clients.admin.users.list(**wanted)
    for name, error in report.refusals.items():
        if not report.brokers:
            raise error
        print_error(f"{name}: {error}")
    return report


def _done(sentence: str, brokers: list[str]) -> str:
    return f"{sentence} at {', '.join(brokers)}."


def read_password(user: str) -> str:
    """Return a password from a hidden prompt or stdin, because others can see flags. Raises SettingsError if empty."""
    if sys.stdin.isatty():
        said = str(
            typer.prompt(
                f"Password of {printable(user)}",
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
    """Return the access, the first for its kind, that a request (name or number of its code) needs to a "Topic:NAME".

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
    user: str, access: "Access", source: str, broker: str, report: "AccountsReport"
) -> DecisionLine:
    """Return whether a user may access a resource at a broker, the deciding policy entry (or None), and why.

    Raises SettingsError if the source address is invalid.
    """
    from ipaddress import ip_address

    from cometmq.access.policies import read_policies

    try:
        ip_address(source)
    except ValueError:
        raise SettingsError(f"--source {source}: this is not an IP address") from None
    told = [each for each in report.users if each.user == user and broker in each.brokers]
    if not told:
        return DecisionLine(broker, False, f"user {in_quotes(user)} does not exist")
    if told[0].status.lower() != "enable":
        return DecisionLine(broker, False, "the user is disabled")
    if told[0].type.lower() == "super":
        return DecisionLine(broker, True, "this is a Super user, who may do everything")
    own = [each for each in report.entries if each.user == user and broker in each.brokers]
    found = read_policies([*map(_policy, own)]).deciding(access, source)
    if found is None:
        reason = "no entry of a policy matches, so the request is refused"
        return DecisionLine(broker, False, reason)
    policy, entry = found
    words = "allows" if entry.is_allowed else "denies"
    said = f"{policy} entry {entry.resource} {words} {', '.join(entry.action_names)}"
    sources = f" from {', '.join(entry.addresses)}" if entry.addresses else ""
    return DecisionLine(broker, entry.is_allowed, said + sources, policy, entry.resource)


def _policy(line: EntryLine) -> dict[str, Any]:
    """Return a policy with one entry, in RocketMQ's form."""
    entry = {
        "resource": line.resource,
        "actions": line.actions,
        "sourceIps": line.sources,
        "decision": line.decision,
    }
    return {"policyType": line.policy, "entries": [entry]}
