"""A request is made in one place: no command is built outside the client's request layer and the servers."""

import ast

import pytest

from tests.arch.sources import SOURCE, modules

# Who makes commands: the layer of requests, what frames them, and the programs that answer and forward them.
MAKERS = ("client/api/", "net/", "wire/", "codec/", "broker/", "nameserver/", "replication/")


def commands_made(text: str) -> list[int]:
    """The lines that build a `Command`, or turn a header into the fields of one."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Command", "encode_fields")
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Command(1)", [1]),
        ("\nask(Command(code, fields=encode_fields(header)))", [2, 2]),
        ("def read(command: Command) -> Command: ...", []),
        ("RawCommand(1)", []),
    ],
)
def test_a_command_that_is_made_is_seen(text, lines):
    assert commands_made(text) == lines


def test_commands_are_made_in_the_request_layer_and_the_servers_only():
    made = [
        f"{module.name}:{line}"
        for module in modules()
        if not module.name.startswith(MAKERS)
        for line in commands_made(module.text)
    ]
    assert not made, "give client/api a method for it"


def test_the_layer_makes_some():
    of_layer = [each for each in modules() if each.path.parent == SOURCE / "client" / "api"]
    assert sum(len(commands_made(module.text)) for module in of_layer) > 30
