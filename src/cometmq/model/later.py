"""Lazy imports of the public names of a package, whose users often need only a part of it.

    if not TYPE_CHECKING:
        __getattr__ = later(__name__, {"AsyncProducer": "cometmq.client.producer.producer"})

Type checkers and editors read the imports under `if TYPE_CHECKING` instead, and so detect wrong names.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def later(
    package: str, modules: Mapping[str, str], ready: Callable[[Any], Any] = lambda found: found
) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports a name on first use, passes it through `ready` and keeps it."""

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = ready(getattr(import_module(modules[name]), name))
        setattr(sys.modules[package], name, found)
        return found

    return find
