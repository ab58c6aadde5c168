"""Web pages of the cluster's users and policies (Auth 2.0): the list, one user with policies, and changes to them.

Every broker has its own users, so pages name the brokers of each value, and changes go to all registered ones. No page
shows a password, and the dashboard does not store one that is typed into a form here, but sends it to the brokers.
"""

from collections import Counter
from collections.abc import Sequence

from starlette.responses import Response

from cometmq.admin import AccountsReport, UserLine
from cometmq.dashboard.inputs import (
    FormRefused,
    PageMissing,
    WrongInput,
    check_seen,
    check_sure,
    needed,
    page_of,
    text_of,
)
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import table_page
from cometmq.model.text import in_quotes

_PASSWORD_MAX = 256
ACTIONS = ("All", "Pub", "Sub", "Get", "List", "Create", "Update", "Delete")
_SUPER, _NORMAL = "Super", "Normal"
_STATES = ("enable", "disable")


async def show_users(request: PageRequest) -> Response:
    """Return an HTML page of the cluster's users, 100 a page. Raises FormRefused if the session may not see them."""
    told = await _told(request)
    find = text_of(request.fields, "find")
    users = [each for each in told.users if find.lower() in each.user.lower()]
    return request.page(
        "users.html",
        "Users",
        section="users",
        part=table_page(users, page_of(request.fields)),
        find=find,
        counts=Counter(each.user for each in told.entries),
        refusals=told.refusals,
        malformed=told.malformed,
        is_told=bool(told.users),
    )


async def show_new_user(request: PageRequest) -> Response:
    """Return the HTML page for a new user; for admins with the form, after an error with the input but for the password."""
    _check_may_look(request)
    return request.page("user_new.html", "New user", section="users")


async def show_user(request: PageRequest) -> Response:
    """Return the HTML page of one user with policies, for admins with forms for changes. Raises PageMissing if unknown."""
    told, users = await _known(request)
    name = users[0].user
    return request.page(
        "user.html",
        name,
        section="users",
        name=name,
        users=users,
        entries=[each for each in told.entries if each.user == name],
        refusals=told.refusals,
        malformed=told.malformed,
        seen=_fingerprint(users),
        actions=ACTIONS,
    )


def _check_may_look(request: PageRequest) -> None:
    """Raise FormRefused unless the session may show users and policies.

    Admins of the dashboard may. So may users who have logged in with an account of the cluster; its brokers then decide
    what they see.
    """
    if not (request.session.is_admin or request.session.is_of_cluster):
        raise FormRefused(
            "Users and policies are shown to admins of the dashboard and to cluster users who may list them. Log "
            "in as one of these."
        )


async def _told(request: PageRequest) -> AccountsReport:
    _check_may_look(request)
    return await request.admin.users.list()


async def _known(request: PageRequest) -> tuple[AccountsReport, Sequence[UserLine]]:
    """Return the report on all users and policies, and its lines about the user that a request names.

    Raises:
        FormRefused, PageMissing: The session may not see users; no broker that answered knows the user.
        CometError: No broker reported a user, and at least one refused or failed; or the report fails.
    """
    _check_may_look(request)
    name = needed(request.fields, "name", "user")
    told = await _told(request)
    users = [each for each in told.users if each.user == name]
    if not users:
        if told.refusals and not told.users:
            raise next(iter(told.refusals.values()))
        raise PageMissing(
            f"No broker has a user {in_quotes(name, 100)}. The page Users lists all users."
        )
    return told, users


async def create_user(request: PageRequest) -> Response:
    """Create the user of a form at every registered broker, and return a redirect to the user's page.

    Raises WrongInput if a broker reports the user, or if the password is missing, too long or typed differently.
    """
    request.subject = name = needed(request.fields, "name", "user")
    password = _password(request)
    if not password:
        raise WrongInput("The password is missing; enter it twice.")
    told = await _told(request)
    if any(each.user == name for each in told.users):
        raise WrongInput(f"The user {in_quotes(name, 100)} exists; change it on its own page.")
    is_super = _one_of(request, "kind", (_NORMAL, _SUPER)) == _SUPER
    await request.admin.users.create(name, password, is_super=is_super)
    return request.go("/user", f"The user {name} is created at every broker.", name=name)


async def change_user(request: PageRequest) -> Response:
    """Change type, state or password of a user at every broker, and return a redirect to the user's page.

    Raises WrongInput, and changes nothing, if type, state or brokers of the user changed since the form was loaded.
    """
    request.subject = name = needed(request.fields, "name", "user")
    _, users = await _known(request)
    check_seen(request.fields, "user", name, _fingerprint(users))
    values = {
        "userType": _one_of(request, "kind", (_NORMAL, _SUPER)),
        "userStatus": _one_of(request, "state", _STATES),
    }
    if password := _password(request):
        values["password"] = password
    await request.admin.users.set(name, values)
    return request.go("/user", f"The user {name} is changed at every broker.", name=name)


async def delete_user(request: PageRequest) -> Response:
    """Delete a user with policies at each broker; redirect to the list. Raises WrongInput if the name is not typed."""
    request.subject = name = needed(request.fields, "name", "user")
    check_sure(request.fields, "user", name)
    await _known(request)
    await request.admin.users.delete(name)
    return request.go("/users", f"The user {name} is deleted, with the policies.")


async def put_entry(request: PageRequest) -> Response:
    """Allow or deny a user actions on a resource at every broker, replacing its Custom entry; redirect to the user."""
    name = needed(request.fields, "name", "user")
    resource = needed(request.fields, "resource", "resource")
    request.subject = f"{name}: {resource}"
    await _known(request)
    actions = [each for each in ACTIONS if request.fields.get(f"do_{each}")]
    if not actions:
        raise WrongInput("No action was chosen; choose one or more.")
    decision = _one_of(request, "decision", ("Allow", "Deny"))
    sources = text_of(request.fields, "sources").replace(",", " ").split()
    request.subject += f" {decision} {' '.join(actions)}"
    await request.admin.users.put_entry(
        name, resource, actions, sources, is_allowed=decision == "Allow"
    )
    return request.go("/user", f"User {name} has new permissions for {resource}.", name=name)


async def delete_entry(request: PageRequest) -> Response:
    """Delete a resource's entry from a user's Custom policy at every broker, and redirect to the user's page.

    Raises PageMissing if no policy of the user has such an entry, and WrongInput unless the box to confirm was ticked.
    """
    name = needed(request.fields, "name", "user")
    resource = needed(request.fields, "resource", "resource")
    request.subject = f"{name}: {resource}"
    told, _ = await _known(request)
    if not any((each.user, each.resource) == (name, resource) for each in told.entries):
        raise PageMissing(
            f"No policy of user {in_quotes(name, 100)} has an entry for {in_quotes(resource, 100)}."
        )
    if not request.fields.get("sure"):
        raise WrongInput(
            f"The entry {in_quotes(resource, 100)} was not removed: tick the box to confirm."
        )
    await request.admin.users.delete_entry(name, resource)
    return request.go(
        "/user", f"The entry {resource} is removed from the policy of user {name}.", name=name
    )


def _password(request: PageRequest) -> str:
    """Return the new password; empty if none was typed. Raises WrongInput if the two inputs differ or are too long."""
    # White space is part of a password, so it is not stripped.
    first, again = request.fields.get("password", ""), request.fields.get("again", "")
    if len(first) > _PASSWORD_MAX:
        raise WrongInput(
            f"The password has {len(first)} characters; at most {_PASSWORD_MAX} are allowed."
        )
    if first != again:
        raise WrongInput("The passwords differ; nothing was changed. Enter the same one twice.")
    return first


def _one_of(request: PageRequest, field: str, known: Sequence[str]) -> str:
    """Return a field's value, or the first of `known` if it is empty. Raises WrongInput if `known` lacks the value."""
    value = text_of(request.fields, field) or known[0]
    if value not in known:
        raise WrongInput(f"{field}: {in_quotes(value, 40)} is not one of {', '.join(known)}.")
    return value


def _fingerprint(users: Sequence[UserLine]) -> str:
    """Return a text of the user's types, states and brokers; a form carries it, to detect changes."""
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
