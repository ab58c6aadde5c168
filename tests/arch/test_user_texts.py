"""Errors and log lines show names and values as users write them, not as Python's `repr` does: `model.text` has the helpers."""

import ast

import pytest

from tests.arch.sources import SOURCE, modules

ALLOWED = {
    "codec/fastjson.py": "the shortest digits of a float",
    "model/frozen.py": "the errors of Python's own frozen dataclasses",
    "model/later.py": "the error of Python's own attributes of modules",
    "model/text.py": "the helper for a caller's argument, which is a value of Python",
    "spark/jobs/text_values.py": "the shortest digits of a float",
}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
REPR, ASCII = ord("r"), ord("a")


def reprs(text: str) -> list[int]:
    """Return the lines with a `repr` outside of `__repr__` methods."""
    tree = ast.parse(text)
    own = {
        part
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and each.name == "__repr__"
        for part in ast.walk(each)
    }
    return [
        each.lineno
        for each in ast.walk(tree)
        if isinstance(each, ast.expr)
        and each not in own
        and (_is_repr(each) or _is_log_with_repr(each))
    ]


def _is_repr(node: ast.AST) -> bool:
    if isinstance(node, ast.FormattedValue):
        return node.conversion in (REPR, ASCII)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "repr"
    )


def _is_log_with_repr(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    template = node.args[0] if node.func.attr in LEVELS and node.args else None
    if not (isinstance(template, ast.Constant) and isinstance(template.value, str)):
        return False
    signs = template.value.replace("%%", "").split("%")[1:]
    return any(sign.lstrip("-+ #0123456789.").startswith("r") for sign in signs)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("raise ValueError(f'{name!r} is not a name')", [1]),
        ("raise ValueError(f'{name!a} is not a name')", [1]),
        ("raise ValueError(f'{name!r:.80} is not a name')", [1]),
        ("said = repr(name)", [1]),
        ("log.warning('%s: %.100r is not a name', place, name)", [1]),
        ("log.warning('%d %% and %s remain', count, name)", []),
        ("raise ValueError(f'{in_quotes(name)} is not a name')", []),
        ("class A:\n    def __repr__(self):\n        return f'A({self.name!r})'", []),
    ],
)
def test_a_repr_is_found(text: str, found: list[int]) -> None:
    assert reprs(text) == found


def test_no_text_for_users_has_a_repr() -> None:
    wrong = [
        f"{module.name}:{line}: use in_quotes or as_given of model.text"
        for module in modules()
        if module.name not in ALLOWED
        for line in reprs(module.text)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_allowed_file_still_has_one() -> None:
    assert [name for name in ALLOWED if not reprs((SOURCE / name).read_text())] == []
