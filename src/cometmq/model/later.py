"""Names of a package that are imported when somebody asks for them.

A package whose users want a part of it, as the processes that Spark starts do, gives its names so:

    if not TYPE_CHECKING:
        __getattr__ = later(__name__, {"AsyncProducer": "cometmq.client.producer.producer"})

Type checkers and editors read the imports that stand under `if TYPE_CHECKING` there, and so know a wrong name.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def later(
    package: str, modules: Mapping[str, str], ready: Callable[[Any], Any] = lambda found: found
) -> Callable[[str], Any]:
    """A package's `__getattr__`: each name is found in its module, once, and passed through `ready`."""

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = ready(getattr(import_module(modules[name]), name))
        setattr(sys.modules[package], name, found)
        return found

    return find
