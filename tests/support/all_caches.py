"""Imports the whole package, finds all of its caches, and feeds them with long texts; run as a program."""

import functools
import gc
import importlib
import inspect
import json
import pkgutil
import sys
from typing import Any

import cometmq
from cometmq.model.bounded_cache import BoundedCache
from cometmq.model.errors import CometError

TEXT_LENGTH = 30_000  # Characters: as long as a property of a message.
_CALLS = 20


def _import_all() -> None:
    for found in pkgutil.walk_packages(cometmq.__path__, "cometmq."):
        if "__main__" in found.name:
            continue
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            print(found.name, error, file=sys.stderr)


def _kind(parameter: inspect.Parameter) -> str:
    text = str(getattr(parameter.annotation, "__name__", parameter.annotation))
    return "tuple" if text.startswith("tuple") else text


def _long(kind: str, number: int) -> Any:
    text = f"{number}" + "x" * TEXT_LENGTH
    return {"bytes": text.encode(), "tuple": (text, "y")}.get(kind, text)


def _feed(function: Any, parameters: list[inspect.Parameter]) -> None:
    first, *others = parameters
    needed = [0 for each in others if each.default is each.empty]
    for number in range(_CALLS):
        try:
            function(_long(_kind(first), number), *needed)
        except CometError:
            continue


def _tell() -> dict[str, Any]:
    known: list[Any] = gc.get_objects()
    functions = [each for each in known if inspect.isfunction(each)]
    bounded = {id(vars(each)["kept"]): each for each in functions if "kept" in vars(each)}
    found = []
    for cache in known:
        module = str(getattr(cache, "__module__", ""))
        if not (
            isinstance(cache, functools._lru_cache_wrapper) and module.startswith("cometmq.")
        ):
            continue
        parameters = list(inspect.signature(cache.__wrapped__).parameters.values())
        before = cache.cache_info().currsize
        if id(cache) in bounded:
            _feed(bounded[id(cache)], parameters)
        found.append(
            {
                "name": f"{module}.{cache.__wrapped__.__qualname__}",
                "kinds": [_kind(each) for each in parameters],
                "is_bounded": id(cache) in bounded,
                "grew": cache.cache_info().currsize - before,
            }
        )
    sizes = [each._size_max for each in known if isinstance(each, BoundedCache)]
    return {"functions": found, "bytes": sizes}


if __name__ == "__main__":
    _import_all()
    print(json.dumps(_tell()))
