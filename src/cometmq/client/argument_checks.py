"""Says which argument of a public call is of the wrong kind, instead of a bare TypeError from somewhere inside.

A call that works costs nothing but one function more: arguments are compared with their annotations once a call has failed with an
error that a wrong kind causes.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from cometmq.model.errors import SettingsError

Class = TypeVar("Class")


class WrongArgument(SettingsError):
    """An argument of the wrong kind; the outermost call that was given it says so."""


_CAUSED = (AttributeError, TypeError, ValueError, LookupError, WrongArgument)
# Called too often for one function more; `SendEncoder` names what is no message.
_LEFT_OUT = "AsyncProducer.send"


def explained(made: Class) -> Class:
    """Let a client class, or another class with arguments, name arguments of wrong kinds; anything else is returned as it is."""
    if not (inspect.isclass(made) and made.__module__.startswith("cometmq.client.")):
        return made
    is_client = hasattr(made, "close")
    for name, function in list(vars(made).items()):
        is_public = is_client and name[0] != "_" and f"{made.__name__}.{name}" != _LEFT_OUT
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
        except _CAUSED as error:
            _explain(function, args, kwargs, error)

    @wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except _CAUSED as error:
            _explain(function, args, kwargs, error)

    return call_async if inspect.iscoroutinefunction(function) else call


def _explain(
    function: Callable[..., Any], args: Any, kwargs: Any, error: BaseException
) -> NoReturn:
    """Raise an error that names the first argument of a wrong kind, or the error itself if all are right."""
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        hints = get_type_hints(function)
    except (TypeError, NameError):  # A wrong number of arguments: Python has said which.
        raise error from None
    for name, value in given.items():
        kind = hints.get(name, Any)
        if name != "self" and not fits(value, kind):
            raise WrongArgument(
                f"{function.__qualname__}: {name} is {_shown(value)}; it must be {_words(kind)}"
            ) from error
    raise error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value may be of an annotated kind; what cannot be decided fits."""
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
        return False  # A text has no texts in it, whatever Python says.
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
    """Return an annotated kind in words."""
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
