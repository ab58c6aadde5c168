"""Every list of a command can be sorted, shortened, repeated and read by programs; every name can be completed."""

from typing import Any

import pytest

from tests.arch.test_commands_of_nouns import COMMANDS, OF_CLUSTER
from tests.support import json_tables

# Lists of what a command has just done or found in a file: the order says something, and nothing of it changes.
ONCE = {
    "acl copy", "acl test", "config check", "group conflicts", "doctor", "message trace", "offset copy", "offset import",
    "offset reset", "offset skip", "store expired",
}  # fmt: skip
LISTS = sorted({name for name, (kind, _) in json_tables.schemas().items() if kind == "array"} & COMMANDS.keys() - ONCE)  # fmt: skip
# They show what a change has left, or files of this machine.
NOT_WATCHED = {"topic perm", "cluster config", "profile list"}
NAMES = {"TOPIC", "GROUP", "BROKER", "USER"}
OPTIONS = {"--topic", "--group", "--broker", "--cluster", "--user"}
# Names that are to be new, and the group of a producer.
NEW = {("acl create", "user"), ("group create", "group"), ("offset copy", "to")}


def options_of(name: str) -> set[str]:
    return {text for each in COMMANDS[name].params for text in each.opts}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_can_be_sorted_shortened_watched_and_read_by_programs(name: str) -> None:
    wanted = {"--sort", "--limit", "--json"} | (
        {"--watch"} - ({"--watch"} if name in NOT_WATCHED else set())
    )
    assert wanted <= options_of(name)


def test_there_are_lists() -> None:
    assert len(LISTS) > 12
    assert {"topic list", "group list", "cluster list", "dlq list", "kv list"} <= {*LISTS}


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
