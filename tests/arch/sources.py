"""The modules of the package, each read and parsed once."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "cometmq"


class Module(NamedTuple):
    """A module of the package; its name is its path below src/cometmq."""

    name: str
    path: Path
    text: str
    tree: ast.Module


@cache
def modules() -> tuple[Module, ...]:
    """All of them, in the order of their paths."""
    texts = [(path, path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]
    return tuple(
        Module(path.relative_to(SOURCE).as_posix(), path, text, ast.parse(text))
        for path, text in texts
    )
