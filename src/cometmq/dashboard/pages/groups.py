"""Web pages of consumer groups: the list, one group with its lag per queue and its members, and changes to a group."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from cometmq.admin import Conflict, GroupConfig, GroupState, Total
from cometmq.dashboard.inputs import (
    PageMissing,
    WrongInput,
    changed_fields,
    check_sure,
    needed,
    number_of,
    order_of,
    page_of,
    text_of,
)
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import table_page
from cometmq.model.errors import CometError, GroupNotFound
from cometmq.model.names import dead_letter_topic, is_system_group
from cometmq.model.text import in_quotes

# Keys to sort groups by; groups with the same key are sorted by name.
_ORDERS: dict[str, Callable[[GroupState], float]] = {
    "lag": lambda each: -each.lag.known,
    "age": lambda each: each.oldest_ms or math.inf,
    "members": lambda each: -len(each.members),
    "rate": lambda each: -each.rate,
    "name": lambda _: 0,
}


async def show_groups(request: PageRequest) -> Response:
    """Return an HTML page of up to 100 consumer groups, sorted as requested, by default largest known lag first.

    System groups are listed only on request. Raises WrongInput for an unknown order.
    """
    find = text_of(request.fields, "find")
    sort = order_of(request.fields, _ORDERS)
    is_all = bool(request.fields.get("all"))
    groups = [
        each
        for each in await request.admin.groups.list()
        if find.lower() in each.name.lower() and (is_all or not is_system_group(each.name))
    ]
    groups.sort(key=lambda each: (_ORDERS[sort](each), each.name))
    missing = await request.admin.brokers.missing()
    absent = {
        str(part)
        for parts in (missing, *((*each.absent, *each.unread) for each in groups))
        for part in parts
    }
    part = table_page(groups, page_of(request.fields))
    return request.page(
        "groups.html",
        "Groups",
        section="groups",
        part=part,
        find=find,
        is_all=is_all,
        sort=sort,
        hanging=request.watcher.hanging_groups(),
        absent=sorted(absent),
    )


async def show_group(request: PageRequest) -> Response:
    """Return the HTML page of one consumer group: lag by queue, members, subscriptions, conflicts and settings."""
    state = await known_group(request)
    return request.page(
        "group.html",
        state.name,
        section="groups",
        group=state,
        dead=await _dead_letters(request, state.name),
        hanging=request.watcher.hanging_groups(),
        findings=request.watcher.findings_about_group(state.name),
        config=next(iter(state.configs.values()), None),
        conflicts=await _conflicts(request, state.name),
        curve=request.watcher.lag_curve(state.name),
    )


async def _dead_letters(request: PageRequest, group: str) -> Total | None:
    """Return the number of a group's dead letters; None without a dead-letter topic, or if the query fails."""
    try:
        return (await request.admin.topics.bounds(dead_letter_topic(group))).messages
    except CometError:
        return None


async def known_group(request: PageRequest) -> GroupState:
    """Return the state of the consumer group that a request names. Raises PageMissing if no broker that answers has it."""
    name = needed(request.fields, "name", "group")
    try:
        return await request.admin.groups.show(name)
    except GroupNotFound:
        raise PageMissing(
            f"No broker has a group {in_quotes(name, 100)}. A group exists after it was created or after its first "
            "consumer connected."
        ) from None


async def _conflicts(request: PageRequest, group: str) -> Sequence[Conflict]:
    """Return the conflicts between a group's members; empty if the query fails, as it does with a Java broker."""
    try:
        return await request.admin.groups.conflicts(group)
    except CometError:
        return ()


async def show_member(request: PageRequest) -> Response:
    """Return the HTML page with the state that a member of a group reports, with its thread stacks if requested."""
    group = needed(request.fields, "name", "group")
    client_id = needed(request.fields, "client", "member")
    stacks = bool(request.fields.get("stacks"))
    state = await request.admin.groups.running(group, client_id, stacks=stacks)
    return request.page(
        "member.html",
        client_id,
        section="groups",
        group=group,
        client_id=client_id,
        state=state,
    )


async def show_producers(request: PageRequest) -> Response:
    """Return an HTML page of up to 100 connected members of producer groups, sorted by group."""
    find = text_of(request.fields, "find").lower()
    producers = await request.admin.groups.producers()
    found = [
        each
        for each in producers.found
        if find in each.group.lower() or find in each.client.client_id.lower()
    ]
    return request.page(
        "producers.html",
        "Producers",
        section="groups",
        part=table_page(found, page_of(request.fields)),
        find=find,
        absent=[*map(str, producers.absent)],
    )


async def show_new_group(request: PageRequest) -> Response:
    """Return the HTML page for a new consumer group; only for admins it has the form."""
    return request.page("group_new.html", "New group", section="groups")


# --- actions


async def create_group(request: PageRequest) -> Response:
    """Create the group of a form at every master; return a redirect to its page. Raises WrongInput if a master has it."""
    request.subject = name = needed(request.fields, "name", "group")
    if name in await request.admin.groups.configs():
        raise WrongInput(f"The group {in_quotes(name, 100)} exists; change it on its own page.")
    new = GroupConfig(name)
    await request.admin.groups.create(replace(new, **_settings(request, new)))
    return request.go("/group", f"The group {name} is created.", name=name)


async def change_group(request: PageRequest) -> Response:
    """Change settings of a consumer group as a form says, at each master that has it; return a redirect to its page.

    Raises WrongInput if no broker has settings of the group, or a number is wrong.
    """
    request.subject = name = needed(request.fields, "name", "group")
    try:
        before = next(iter((await request.admin.groups.show(name)).configs.values()), None)
    except GroupNotFound:
        before = None
    if before is None:
        raise WrongInput(f"No broker has settings of group {in_quotes(name, 100)}; create it.")
    await request.admin.groups.set(name, changed_fields(before, _settings(request, before)))
    return request.go("/group", f"The group {name} is changed.", name=name)


def _settings(request: PageRequest, before: GroupConfig) -> dict[str, Any]:
    """Return the settings in the form, by field of `GroupConfig`; empty numbers keep their value in `before`."""
    fields = request.fields
    return {
        "consume_enabled": bool(fields.get("consume")),
        "broadcast_enabled": bool(fields.get("broadcast")),
        "retry_queues": number_of(
            fields,
            "retry_queues",
            "Retry queues",
            least=0,
            most=1024,
            default=before.retry_queues,
        ),
        "retry_max_times": number_of(
            fields,
            "retry_max",
            "Tries",
            least=-1,
            most=1_000_000,
            default=before.retry_max_times,
        ),
    }


async def delete_group(request: PageRequest) -> Response:
    """Delete a group with offsets at each master; redirect to the list. Raises WrongInput if its name is not typed."""
    request.subject = name = needed(request.fields, "name", "group")
    check_sure(request.fields, "group", name)
    await request.admin.groups.delete(name)
    return request.go("/groups", f"The group {name} is deleted, with its offsets.")


PAGES = (
    Page("/groups", show_groups),
    Page("/producers", show_producers),
    Page("/groups/new", show_new_group),
    Page("/group", show_group),
    Page("/group/member", show_member),
    Page("/groups/create", create_group, "create group", show_new_group),
    Page("/group/change", change_group, "change group", show_group),
    Page("/group/delete", delete_group, "delete group", show_group),
)
