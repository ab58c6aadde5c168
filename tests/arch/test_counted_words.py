"""A line of the log says "1 topic", not "1 topics": a word behind a number is `plural`'s, or a bound's, which is never 1."""

import ast
import re

from tests.arch.sources import modules

LEVELS = {"debug", "info", "warning", "error", "exception"}

COUNTED = re.compile(r"(?<!of )%d (?:[a-z]+ )?([a-z]{3,}s)\b")
# Units, bounds, which are never 1, and verbs.
WORDS = {
    "bytes",
    "minutes",
    "connections",
    "ends",
    "goes",
    "says",
    "descriptors",
}


def log_texts(tree: ast.Module) -> list[tuple[int, str]]:
    return [
        (node.lineno, node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LEVELS
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


def test_log_lines_have_the_singular_for_one() -> None:
    wrong = [
        f"{module.name}:{line}: {word}"
        for module in modules()
        for line, text in log_texts(module.tree)
        for word in COUNTED.findall(text)
        if word not in WORDS
    ]
    assert not wrong, "\n".join(wrong)
