"""Lazy imports of the public names of a package, whose users often need only a part of it.

    __getattr__, __dir__, __all__ = later(__name__)

The names and where they are defined are the imports of the stub file beside the module (`x.pyi` beside `x.py`), which
type checkers and editors read as well.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


def later(
    name: str, ready: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a module, which import each name of its stub file on first use.

    Args:
        name: Name of the module, which is being imported.
        ready: "module:function" of a function that each imported object is passed through; None: none.
    """
    module = sys.modules[name]
    modules = _imports(module)

    def find(wanted: str) -> Any:
        if wanted not in modules:
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
        found = getattr(import_module(modules[wanted]), wanted)
        if ready is not None:
            place, _, function = ready.partition(":")
            found = getattr(import_module(place), function)(found)
        setattr(module, wanted, found)
        return found

    return find, lambda: sorted({*vars(module), *modules}), sorted(modules)


def _imports(module: ModuleType) -> dict[str, str]:
    """Return the names that the stub file of a module imports, and the module of each."""
    path = f"{(module.__file__ or '').rpartition('.')[0]}.pyi"
    loader: Any = module.__loader__
    tree = ast.parse(loader.get_data(path), path)
    return {
        each.name: str(statement.module)
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom)
        for each in statement.names
    }
