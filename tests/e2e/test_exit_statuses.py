"""The one table of exit statuses, over every command: 2 for wrong use, 3 where nobody is there to answer."""

from collections.abc import Sequence
from typing import Any

import pytest
from typer.testing import CliRunner

from cometmq.cli.__main__ import app
from cometmq.codec.recall_handle import RecallHandle, encode_recall_handle
from tests.support.command_line import commands
from tests.support.processes import free_port

# They start a server, which a closed port does not stop; or read what is behind them as a job's.
PROGRAMS = {("up",), ("nameserver",), ("broker",), ("proxy",), ("dashboard",), ("pipeline",)}
# It only writes an address down.
NOTES = {("profile", "create"), ("profile", "set")}
# What an argument or a needed option must look like to be taken.
VALUES = {
    "address": "127.0.0.1:1",
    "code": "SEND_MESSAGE_V2",
    "resource": "Topic:orders",
    "offset_id": "7F00000100002A9F0000000000000000",
    "properties": "flushDiskType=ASYNC_FLUSH",
    "settings": "flushDiskType=ASYNC_FLUSH",
    "key": "flushDiskType",
    "actions": "Pub",
    "file": "orders.json",
    "folder": "nowhere",
    "archive": "nowhere",
    "handle": encode_recall_handle(RecallHandle("x", "broker-a", "1", "k")),
    "first": "nowhere",
    "second": "nowhere",
}
EXPORTED = b"""{"group": "g", "exported_ms": 1, "offsets": [
    {"topic": "t", "broker": "b", "queue": 0, "offset": 1}]}"""
# It looks at what does not answer: found, not failed. And who asks the broker that an id names.
FINDS: dict[tuple[str, ...], int] = {("doctor",): 1}
ELSEWHERE = {("transactions", "resume")}
# Of commands that want one of several options: which.
MORE: dict[tuple[str, ...], tuple[str, ...]] = {
    ("message", "find"): ("--key", "k"),
    ("group", "set"): ("--no-consume",),
    ("offset", "reset"): ("--to", "earliest"),
    ("topic", "set"): ("--no-write",),
    ("acl", "set"): ("--disable",),
}


ALL = commands()
ASKING = {
    words: command
    for words, command in ALL.items()
    if words not in PROGRAMS | NOTES
    and any("--nameserver" in each.opts for each in command.params)
}


def words_of(words: Sequence[str]) -> str:
    return " ".join(words)


def needed(words: tuple[str, ...], command: Any) -> list[str]:
    """The arguments without which a command cannot begin."""
    given = list(MORE.get(words, ()))
    for each in command.params:
        value = VALUES.get(each.name, "x")
        if each.param_type_name == "argument" and each.required:
            given.append(value)
        elif each.required and not set(each.opts) & set(given):
            given += [each.opts[0], value]
        elif "--yes" in each.opts:
            given.append("--yes")
    return given


def test_there_are_commands_of_both_kinds() -> None:
    assert len(ALL) > 60
    assert len(ASKING) > 40


@pytest.mark.parametrize("words", [each for each in ALL if each not in PROGRAMS], ids=words_of)
def test_an_option_that_is_not_there_is_wrong_use(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, *needed(words, ALL[words]), "--no-such-option"])
    assert done.exit_code == 2, done.output


@pytest.mark.parametrize("words", ASKING, ids=words_of)
def test_where_nobody_answers_it_failed(words: tuple[str, ...], tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.json").write_bytes(EXPORTED)
    nobody = f"127.0.0.1:{free_port()}"
    arguments = [*words, *needed(words, ASKING[words]), "-n", nobody]
    done = CliRunner().invoke(app, arguments, input="secret\nsecret\n")
    assert done.exit_code == FINDS.get(words, 3), done.output
    assert nobody in done.output or words in ELSEWHERE
    assert "Traceback" not in done.output


@pytest.mark.parametrize("words", [each for each in ALL if each[0] == "store"], ids=words_of)
def test_a_store_that_is_not_there_fails_or_is_wrong_use(
    words: tuple[str, ...], tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*words, *needed(words, ALL[words])])
    assert done.exit_code in (2, 3), done.output
    assert "nowhere" in done.output
    assert list(tmp_path.iterdir()) == [], "nothing is made"
