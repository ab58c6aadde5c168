"""Errors that name the argument of a public call that has the wrong type, instead of, for example, a bare TypeError.

Arguments are compared with their annotations only after a call has failed with a suitable error, so a successful call
costs only a wrapper. A few frequent methods avoid even that and call `explain` when they fail.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given

Class = TypeVar("Class")


class WrongArgument(SettingsError):
    """The error for an argument of the wrong type, raised by the outermost public call that received it; or for a count below 1."""


# Errors that an argument of the wrong type can cause.
CAUSED = (AttributeError, TypeError, ValueError, LookupError, WrongArgument)
# These methods call `explain` themselves.
_LEFT_OUT = ("AsyncProducer.send", "AsyncProducer.send_oneway", "AsyncPullConsumer.receive")


def explained(made: Class) -> Class:
    """Change a class so that its constructor's errors name an argument of the wrong type; return the class.

    Of an asyncio client or a subject of an admin client, most public methods are changed, too. Anything but a class of
    `cometmq.client` is returned as it is.
    """
    if not (inspect.isclass(made) and made.__module__.startswith("cometmq.client.")):
        return made
    # A blocking client needs no wrapper: its portal explains errors of the asyncio client.
    is_client = hasattr(made, "close") or hasattr(made, "class_name")
    is_client = is_client and not hasattr(made, "_portal")
    for name, function in list(vars(made).items()):
        is_public = is_client and name[0] != "_" and f"{made.__name__}.{name}" not in _LEFT_OUT
        if inspect.isfunction(function) and (name == "__init__" or is_public):
            setattr(made, name, _explained(function))
    return made


def _explained(function: Callable[..., Any]) -> Callable[..., Any]:
    if len(inspect.signature(function).parameters) < 2 or hasattr(function, "__wrapped__"):
        return function
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except CAUSED as error:
            named = explain(function, args, kwargs, error)
        raise named

    @wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except CAUSED as error:
            named = explain(function, args, kwargs, error)
        raise named

    return call_async if inspect.iscoroutinefunction(function) else call


def explain(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: BaseException,
) -> BaseException:
    """Return an error that names the first argument of the wrong type, or the given error if it seems to have another cause.

    `function` is the function or bound method that failed with `error`; `args` and `kwargs` are its arguments.
    """
    if not isinstance(error, CAUSED):
        return error
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        hints = get_type_hints(function)
    except (TypeError, NameError):  # A wrong number of arguments: Python's own error names it.
        return error
    owner = getattr(function, "__self__", given.get("self"))
    # The name that the user knows: a blocking client sets it on its asyncio client.
    place = getattr(owner, "class_name", function.__qualname__.rpartition(".")[0])
    for name, value in given.items():
        kind = hints.get(name, Any)
        if name != "self" and not fits(value, kind):
            named = WrongArgument(
                f"{place}.{function.__name__}: {name} is {as_given(value, 80)}; it must be {_words(kind)}"
            )
            named.__cause__ = error
            return named
    return error


def check_counts(**counts: int) -> None:
    """Raise WrongArgument if one of these numbers, given under the names of their arguments, is less than 1."""
    for name, count in counts.items():
        if count < 1:
            raise WrongArgument(f"{name}={count}: it must be at least 1")


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value matches an annotated type; True if this cannot be decided."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin in (Callable, type):
        return callable(value)
    plain = (int | float) if kind is float else origin or kind
    is_known = isinstance(plain, type | UnionType) and not getattr(plain, "_is_protocol", False)
    if kind is Any or not is_known:
        return True
    if not isinstance(value, plain) or (isinstance(value, str | bytes) and inner):
        return False  # A str is formally a collection of str, but never meant as one.
    return _fits_inside(value, plain, inner)


def _fits_inside(value: Any, plain: Any, inner: tuple[Any, ...]) -> bool:
    if not inner or plain is tuple:
        return True
    if issubclass(plain, Mapping):
        key, each = inner
        return all(fits(name, key) and fits(thing, each) for name, thing in value.items())
    if isinstance(value, Collection) and issubclass(plain, Iterable):
        return all(fits(each, inner[0]) for each in value)
    return True


_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    bytes: "bytes",
}


def _words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_words, inner)))
    if kind is None or kind is NoneType:
        return "None"
    if origin is Callable:
        return "a function"
    if kind in _NAMES:
        return _NAMES[kind]
    if inner and isinstance(origin, type):
        return f"{origin.__name__} of {', '.join(map(_words, inner))}"
    return getattr(kind, "__name__", str(kind))
