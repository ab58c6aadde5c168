"""Consumer groups: the list, one with its lag by queue and its members, and what may be done to one.

Next: cometmq.client.admin.inspector
"""

from collections.abc import Sequence
from dataclasses import replace

from starlette.responses import Response

from cometmq.client import Conflict, GroupConfig, GroupState
from cometmq.dashboard.asked import Asked, Page
from cometmq.dashboard.inputs import (
    PageMissing,
    WrongInput,
    needed,
    number_of,
    page_of,
    text_of,
)
from cometmq.dashboard.paging import part_of
from cometmq.model.errors import CometError, GroupNotFound
from cometmq.model.names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS


def is_system_group(name: str) -> bool:
    """Whether the system owns it."""
    return name in SYSTEM_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)


async def show_groups(asked: Asked) -> Response:
    """The list, those that are furthest behind first."""
    find = text_of(asked.fields, "find")
    is_all = bool(asked.fields.get("all"))
    groups = [
        each
        for each in await asked.inspector.groups()
        if find.lower() in each.name.lower() and (is_all or not is_system_group(each.name))
    ]
    groups.sort(key=lambda each: (-each.lag, each.name))
    part = part_of(groups, page_of(asked.fields))
    return asked.page(
        "groups.html", "Groups", section="groups", part=part, find=find, is_all=is_all
    )


async def show_group(asked: Asked) -> Response:
    """One group."""
    state = await known_group(asked)
    return asked.page(
        "group.html",
        state.name,
        section="groups",
        group=state,
        config=next(iter(state.configs.values()), None),
        conflicts=await _conflicts(asked, state.name),
        curve=asked.watcher.lag_curve(state.name),
    )


async def known_group(asked: Asked) -> GroupState:
    """The group that a page is about.

    Raises:
        PageMissing: no broker has it.
    """
    name = needed(asked.fields, "name", "group")
    try:
        return await asked.inspector.group(name)
    except GroupNotFound:
        raise PageMissing(
            f"No broker knows a group {name[:100]!r}. A group is there once somebody made it, or a consumer of it came."
        ) from None


async def _conflicts(asked: Asked, group: str) -> Sequence[Conflict]:
    """The contradictions between a group's members; none where brokers, as Java's, do not tell."""
    try:
        return await asked.inspector.conflicts(group)
    except CometError:
        return ()


async def show_member(asked: Asked) -> Response:
    """Show the state that a member of a group reports."""
    group = needed(asked.fields, "name", "group")
    client_id = needed(asked.fields, "client", "member")
    stacks = bool(asked.fields.get("stacks"))
    state = await asked.inspector.running(group, client_id, stacks=stacks)
    return asked.page(
        "member.html",
        client_id,
        section="groups",
        group=group,
        client_id=client_id,
        state=state,
    )


async def show_new_group(asked: Asked) -> Response:
    """The form for a new one."""
    return asked.page("group_new.html", "New group", section="groups")


# --- deeds


async def create_group(asked: Asked) -> Response:
    """Make one."""
    asked.subject = name = needed(asked.fields, "name", "group")
    if name in await asked.admin.groups():
        raise WrongInput(
            f"The group {name[:100]!r} is there already; change it on its own page."
        )
    await asked.admin.create_group(_config(asked, GroupConfig(name)))
    return asked.go("/group", f"The group {name} is there.", name=name)


async def change_group(asked: Asked) -> Response:
    """Change the settings of a group."""
    asked.subject = name = needed(asked.fields, "name", "group")
    before = (await asked.admin.groups()).get(name)
    if before is None:
        raise WrongInput(f"No broker has settings of the group {name[:100]!r}; create it.")
    await asked.admin.create_group(_config(asked, before))
    return asked.go("/group", f"The group {name} is changed.", name=name)


def _config(asked: Asked, before: GroupConfig) -> GroupConfig:
    fields = asked.fields
    return replace(
        before,
        consume_enabled=bool(fields.get("consume")),
        broadcast_enabled=bool(fields.get("broadcast")),
        retry_queues=number_of(
            fields, "retry_queues", "Retry queues", least=0, most=1024, default=1
        ),
        retry_max_times=number_of(
            fields, "retry_max", "Tries", least=-1, most=1_000_000, default=16
        ),
    )


async def delete_group(asked: Asked) -> Response:
    """Delete a group with its offsets."""
    asked.subject = name = needed(asked.fields, "name", "group")
    if text_of(asked.fields, "sure") != name:
        raise WrongInput(
            f"The group {name[:100]!r} was not deleted: write its name into the field to say that you are sure."
        )
    await asked.admin.delete_group(name)
    return asked.go("/groups", f"The group {name} is deleted, with its offsets.")


PAGES = (
    Page("/groups", show_groups),
    Page("/groups/new", show_new_group),
    Page("/group", show_group),
    Page("/group/member", show_member),
    Page("/groups/create", create_group, "create group", show_new_group),
    Page("/group/change", change_group, "change group", show_group),
    Page("/group/delete", delete_group, "delete group", show_group),
)
