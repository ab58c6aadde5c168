"""Annotations mean the same on every Python: from 3.14 on they are evaluated late, in their class, with all of its names."""

import ast
from collections.abc import Iterator

from tests.arch.sources import modules


def names_in_annotations(scope: ast.ClassDef) -> Iterator[str]:
    """The names that the annotations of a class and of its methods mention."""
    for node in scope.body:
        found: list[ast.expr | None] = []
        if isinstance(node, ast.AnnAssign):
            found = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = ast.walk(node.args)
            found = [each.annotation for each in every if isinstance(each, ast.arg)]
            found.append(node.returns)
        for annotation in filter(None, found):
            for each in ast.walk(annotation):
                if isinstance(each, ast.Name):
                    yield each.id


def names_of(scope: ast.ClassDef) -> set[str]:
    """The names that a class gives to its methods and values; a field without a value is none of its names."""
    names = set()
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif (
            isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name)
        ):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names.update(each.id for each in node.targets if isinstance(each, ast.Name))
    return names


def test_no_annotation_takes_a_method_for_a_type() -> None:
    """A class with a method `list` needs `from __future__ import annotations`, or `list[str]` is that method's on 3.14."""
    wrong: set[str] = set()
    for module in modules():
        if any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__"
            for node in module.tree.body
        ):
            continue
        for scope in ast.walk(module.tree):
            if isinstance(scope, ast.ClassDef):
                hidden = names_of(scope) & set(names_in_annotations(scope))
                wrong.update(f"{module.name}: {scope.name}.{name}" for name in hidden)
    assert sorted(wrong) == []
