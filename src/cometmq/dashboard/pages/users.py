"""Users and policies of the cluster (Auth 2.0): the list, one with his entries, and what may be done to one.

Every broker has its own, so what brokers say is shown with their names, and what is changed is changed at each. No
page shows a password, and none is kept: what somebody types into a form goes to the brokers only.

Next: cometmq.client.admin.accounts
"""

from collections.abc import Sequence

from starlette.responses import Response

from cometmq.client import AccountsReport, EntryLine, UserLine
from cometmq.dashboard.asked import Asked, Page
from cometmq.dashboard.inputs import (
    FormRefused,
    PageMissing,
    WrongInput,
    needed,
    page_of,
    text_of,
)
from cometmq.dashboard.paging import part_of

_PASSWORD_MAX = 256
ACTIONS = ("All", "Pub", "Sub", "Get", "List", "Create", "Update", "Delete")
_SUPER, _NORMAL = "Super", "Normal"
_STATES = ("enable", "disable")


async def show_users(asked: Asked) -> Response:
    """The list."""
    told = await _told(asked)
    find = text_of(asked.fields, "find")
    users = [each for each in told.users if find.lower() in each.user.lower()]
    return asked.page(
        "users.html",
        "Users",
        section="users",
        part=part_of(users, page_of(asked.fields)),
        find=find,
        counts=_entry_counts(told.entries),
        refusals=told.refusals,
        is_told=bool(told.users),
    )


async def show_new_user(asked: Asked) -> Response:
    """The form for a new one; again with what was written, but for the password."""
    _check_may_look(asked)
    return asked.page("user_new.html", "New user", section="users")


async def show_user(asked: Asked) -> Response:
    """One user, his policies, and forms to change them."""
    told, users = await _known(asked)
    name = users[0].user
    return asked.page(
        "user.html",
        name,
        section="users",
        name=name,
        users=users,
        entries=[each for each in told.entries if each.user == name],
        refusals=told.refusals,
        seen=_fingerprint(users),
        actions=ACTIONS,
    )


def _check_may_look(asked: Asked) -> None:
    """Refuse everyone but admins and users of the cluster, whom the brokers tell what they may know.

    Raises:
        FormRefused: he is neither.
    """
    if not (asked.session.is_admin or asked.session.is_of_cluster):
        raise FormRefused(
            "Who may do what in the cluster is shown to admins of the dashboard, and to users of the cluster whom its brokers tell."
        )


async def _told(asked: Asked) -> AccountsReport:
    _check_may_look(asked)
    return await asked.link.accounts.told()


async def _known(asked: Asked) -> tuple[AccountsReport, Sequence[UserLine]]:
    """The users and policies that brokers report of the user of a page.

    Raises:
        PageMissing: none knows him.
        CometError: none says anything.
    """
    _check_may_look(asked)
    name = needed(asked.fields, "name", "user")
    told = await _told(asked)
    users = [each for each in told.users if each.user == name]
    if not users:
        if told.refusals and not told.users:
            raise next(iter(told.refusals.values()))
        raise PageMissing(f"No broker knows a user {name[:100]!r}. The list shows all of them.")
    return told, users


async def create_user(asked: Asked) -> Response:
    """Make one at every broker."""
    asked.subject = name = needed(asked.fields, "name", "user")
    password = _password(asked)
    if not password:
        raise WrongInput("No password was written; write one, twice.")
    told = await _told(asked)
    if any(each.user == name for each in told.users):
        raise WrongInput(f"The user {name[:100]!r} is there already; his page changes him.")
    is_super = _one_of(asked, "kind", (_NORMAL, _SUPER)) == _SUPER
    await asked.link.accounts.create(name, password, is_super=is_super)
    return asked.go("/user", f"The user {name} is there, at every broker.", name=name)


async def change_user(asked: Asked) -> Response:
    """Change kind, state or password of a user; not if somebody else changed him meanwhile."""
    asked.subject = name = needed(asked.fields, "name", "user")
    _, users = await _known(asked)
    if asked.fields.get("seen") != _fingerprint(users):
        raise WrongInput(
            f"The user {name[:100]!r} was changed meanwhile, in another window or by somebody else; nothing was done. "
            "What he is now stands here: look, and send again."
        )
    values = {
        "userType": _one_of(asked, "kind", (_NORMAL, _SUPER)),
        "userStatus": _one_of(asked, "state", _STATES),
    }
    if password := _password(asked):
        values["password"] = password
    await asked.link.accounts.update(name, values)
    return asked.go("/user", f"The user {name} is changed, at every broker.", name=name)


async def delete_user(asked: Asked) -> Response:
    """Delete a user and his policies."""
    asked.subject = name = needed(asked.fields, "name", "user")
    if text_of(asked.fields, "sure") != name:
        raise WrongInput(
            f"The user {name[:100]!r} was not deleted: write his name into the field to say that you are sure."
        )
    # Brokers answer that a user is gone who never was.
    await _known(asked)
    await asked.link.accounts.delete(name)
    return asked.go("/users", f"The user {name} is deleted, with his policies.")


async def put_entry(asked: Asked) -> Response:
    """Allow or deny him something, in place of what was said of that resource."""
    name = needed(asked.fields, "name", "user")
    resource = needed(asked.fields, "resource", "resource")
    asked.subject = f"{name}: {resource}"
    await _known(asked)
    actions = [each for each in ACTIONS if asked.fields.get(f"do_{each}")]
    if not actions:
        raise WrongInput("No action was chosen; choose one or more.")
    decision = _one_of(asked, "decision", ("Allow", "Deny"))
    sources = text_of(asked.fields, "sources").replace(",", " ").split()
    asked.subject += f" {decision} {' '.join(actions)}"
    await asked.link.accounts.put_entry(
        name, resource, actions, sources, is_allowed=decision == "Allow"
    )
    return asked.go("/user", f"What {name} may do to {resource} is changed.", name=name)


async def delete_entry(asked: Asked) -> Response:
    """Take an entry of his policy away."""
    name = needed(asked.fields, "name", "user")
    resource = needed(asked.fields, "resource", "resource")
    asked.subject = f"{name}: {resource}"
    told, _ = await _known(asked)
    if not any((each.user, each.resource) == (name, resource) for each in told.entries):
        raise PageMissing(f"No policy of {name[:100]!r} says anything of {resource[:100]!r}.")
    if not asked.fields.get("sure"):
        raise WrongInput(
            f"The entry {resource[:100]!r} was not taken away: tick that you are sure."
        )
    await asked.link.accounts.delete_entry(name, resource)
    return asked.go("/user", f"The entry {resource} is out of the policy of {name}.", name=name)


def _password(asked: Asked) -> str:
    """The new password that was typed twice; empty where none was.

    Raises:
        WrongInput: it was not typed twice alike, or is too long.
    """
    # Of a password, white space counts.
    first, again = asked.fields.get("password", ""), asked.fields.get("again", "")
    if len(first) > _PASSWORD_MAX:
        raise WrongInput(
            f"The password has {len(first)} characters; {_PASSWORD_MAX} is the most."
        )
    if first != again:
        raise WrongInput("The password was not written twice alike; nothing was done.")
    return first


def _one_of(asked: Asked, field: str, known: Sequence[str]) -> str:
    """One of the values of a list.

    Raises:
        WrongInput: it is none of them.
    """
    value = text_of(asked.fields, field) or known[0]
    if value not in known:
        raise WrongInput(f"{field}: {value[:40]!r} is none of {', '.join(known)}.")
    return value


def _entry_counts(entries: Sequence[EntryLine]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in entries:
        counts[each.user] = counts.get(each.user, 0) + 1
    return counts


def _fingerprint(users: Sequence[UserLine]) -> str:
    """A text that changes with the user, by which a form notices that it has changed."""
    return ";".join(
        f"{each.type},{each.status},{' '.join(sorted(each.brokers))}" for each in users
    )


PAGES = (
    Page("/users", show_users),
    Page("/users/new", show_new_user),
    Page("/user", show_user),
    Page("/users/create", create_user, "create user", show_new_user),
    Page("/user/change", change_user, "change user", show_user),
    Page("/user/delete", delete_user, "delete user", show_user),
    Page("/user/policy", put_entry, "change policy", show_user),
    Page("/user/policy/delete", delete_entry, "delete policy entry", show_user),
)
