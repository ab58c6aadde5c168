"""Names that packages import when somebody asks for them: a wrong one is an error, to Python and to type checkers.

`make types` is the other half: where mypy took one of the wrong names below to be right, it would find its `type: ignore` unused.
"""

import ast

import pytest

from tests.arch.sources import modules


def test_a_wrong_name_is_an_error() -> None:
    with pytest.raises(ImportError, match="Producr"):
        from cometmq.connect import Producr  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Producr"):
        from cometmq import Producr  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match="read_detla"):
        from cometmq.spark import read_detla  # type: ignore[attr-defined]  # noqa: F401


def test_no_package_shows_type_checkers_that_it_finds_names() -> None:
    """They would take any name to be there; a stub file beside the module hides it."""
    shown = [
        module.name
        for module in modules()
        if not module.path.with_suffix(".pyi").exists()
        for statement in module.tree.body
        if "__getattr__" in _names_of(statement)
    ]
    assert shown == []


def _names_of(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module gives a value."""
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [each.id for each in statement.targets if isinstance(each, ast.Name)]
    return []
