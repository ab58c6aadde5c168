"""Every list of a command can be sorted, shortened, repeated and read by programs; names are completed, options mean one thing."""

import re
from collections import defaultdict
from typing import Any, get_args

import pytest

from tests.arch.test_commands_of_nouns import COMMANDS, OF_CLUSTER
from tests.support import json_tables
from tests.support.pages import ROOT

# Lists of what a command has just done or found in a file: the order says something, and nothing of it changes.
ONCE = {
    "acl copy", "config check", "message trace", "offset copy", "offset import", "offset reset", "offset skip",
    "store expired",
}  # fmt: skip
LISTS = {name for name, (kind, _) in json_tables.schemas().items() if kind == "array"} & COMMANDS.keys() - ONCE  # fmt: skip
# Their lists are lines of JSON, or parts of an object.
LISTS |= {"message find", "message delayed", "dlq show", "transactions list", "topic show", "group show"}  # fmt: skip
# It shows files of this machine.
NOT_WATCHED = {"profile list", "dashboard user list"}
NAMES = {"TOPIC", "GROUP", "BROKER", "USER"}
OPTIONS = {"--topic", "--group", "--broker", "--cluster", "--user"}
# `send` gives a message what the others search for; the lead goes to a member, offsets go to a time.
GIVEN = {("send", "--tag"), ("send", "--key"), ("cluster transfer", "--to")}
# Where the option has another meaning: programs and files of this machine.
OF_FILES = {"up", "nameserver", "broker", "proxy", "config", "dashboard", "pipeline", "store"}


def options_of(name: str) -> set[str]:
    return {text for each in COMMANDS[name].params for text in each.opts}


@pytest.mark.parametrize("name", sorted(LISTS))
def test_a_list_can_be_sorted_shortened_watched_and_read_by_programs(name: str) -> None:
    wanted = {"--sort", "--limit", "--json"} | (
        {"--watch"} - ({"--watch"} if name in NOT_WATCHED else set())
    )
    assert wanted <= options_of(name)


def test_there_are_lists() -> None:
    assert len(LISTS) > 20
    assert {"topic list", "group list", "cluster list", "dlq list", "kv list"} <= LISTS


@pytest.mark.parametrize("name", OF_CLUSTER)
def test_every_name_is_completed(name: str) -> None:
    def is_name(each: Any) -> bool:
        return each.metavar in NAMES or OPTIONS.intersection(each.opts) != set()

    lacking = [
        each.name
        for each in COMMANDS[name].params
        if is_name(each) and each._custom_shell_complete is None
    ]
    assert lacking == []


def kind_of(option: Any) -> type:
    """What its values are; one that may be repeated has the kind of its values."""
    if hasattr(option, "type"):  # Before typer 0.29.
        return type(option.type)
    found = option.type_descriptor.annotation
    return next(iter(get_args(found)), found)


def test_an_option_has_one_meaning_and_one_type_in_every_command() -> None:
    meanings: dict[str, dict[tuple[type, str], list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for name, command in COMMANDS.items():
        if name.split()[0] in OF_FILES:
            continue
        for each in command.params:
            for option in each.opts:
                # The columns of --sort are those of the list.
                text = "" if option == "--sort" else getattr(each, "help", "") or ""
                if option.startswith("--") and (name, option) not in GIVEN:
                    meanings[option][kind_of(each), text].append(name)
    assert {option: dict(kinds) for option, kinds in meanings.items() if len(kinds) > 1} == {}


def test_commands_that_texts_and_pages_name_exist() -> None:
    groups = {name.rpartition(" ")[0] for name in COMMANDS if " " in name}
    longest_first = sorted(groups, key=len, reverse=True)
    named = re.compile(rf"cometmq ({'|'.join(longest_first)}) ([a-z][a-z-]*)\b")
    places = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changes").glob("*.md")]  # fmt: skip
    lost = {
        (found[0], str(place.relative_to(ROOT)))
        for place in places
        for found in named.finditer(place.read_text())
        if f"{found[1]} {found[2]}" not in COMMANDS.keys() | groups
    }
    assert lost == set()
