"""A handler is given its asker: nothing on a connection says who asks, or what another request left there."""

import ast
from collections.abc import Iterator

from cometmq.net.peer import Peer
from tests.arch.sources import modules

# What the last request of a connection leaves on it, and who may look: requests of one pipeline have different users.
OF_THE_GATE = {"signed_by", "has_signed"}
GATE = {"access/gate.py", "net/peer.py"}
# What handlers note on a connection about its next read, for the fast paths.
SET_BY_FAST_PATHS = {"sends_alone", "asks_alone"}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """All nodes of all modules but the gate's own, with the module's path."""
    for module in modules():
        if module.name not in GATE:
            yield from ((module.name, node) for node in ast.walk(module.tree))


def test_only_the_gate_reads_from_a_connection_who_signed_there() -> None:
    assert set(Peer.__slots__) >= OF_THE_GATE
    read = {
        (name, node.attr)
        for name, node in nodes()
        if isinstance(node, ast.Attribute) and node.attr in OF_THE_GATE
    }
    assert read == set(), "a handler takes its asker as an argument (net.requests.WithAsker)"


def test_no_request_leaves_anything_on_its_connection() -> None:
    """The next request of the pipeline would change it, before the coroutine of this one reads it."""
    left = {
        (name, node.attr)
        for name, node in nodes()
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "peer"
        and not name.startswith(("net/", "kernel/"))
    }
    assert {attribute for _, attribute in left} == SET_BY_FAST_PATHS


def test_an_asker_is_never_none_beyond_the_gate() -> None:
    unions = {
        (name, ast.unparse(node))
        for name, node in nodes()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
    }
    assert {each for each in unions if {"Asker", "None"} <= set(each[1].split(" | "))} == set()
