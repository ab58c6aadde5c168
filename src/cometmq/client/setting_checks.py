"""Validation of client settings: `check_settings` raises an error that names an invalid setting and its allowed values.

@dataclass(frozen=True)
class PushSettings:
    concurrency: int = number(20, least=1, most=10_000)
"""

import dataclasses
from collections.abc import Callable
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given

INT_MAX = 2**31 - 1  # Maximum of Java's int: 24 days in ms, or 2 GiB.


def number(default: Any, *, least: int = 1, most: int = INT_MAX) -> Any:
    """Declare a dataclass field whose integers `check_settings` requires to be from `least` to `most`."""
    return dataclasses.field(default=default, metadata={"least": least, "most": most})


def check_settings(settings: object) -> None:
    """Raise SettingsError if a field of a settings dataclass has the wrong type or is out of bounds."""
    kind: type = type(settings)
    for name, check in _checks(kind):
        value = getattr(settings, name)
        wanted = check(value)
        if wanted is not None:
            raise refused(settings, name, wanted)


def refused(settings: object, name: str, wanted: str) -> SettingsError:
    """Return an error that names a setting, its value (of credentials only the type) and the allowed values."""
    value = as_given(getattr(settings, name))
    if name == "credentials":  # An invalid value may still contain a secret.
        value = f"of the kind {type(getattr(settings, name)).__name__}"
    return SettingsError(f"{type(settings).__name__}.{name} is {value}; it must be {wanted}")


# Returns a description of the allowed values, or None if the value is valid.
_Check = Callable[[Any], str | None]


@cache
def _checks(kind: type) -> tuple[tuple[str, _Check], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (each.name, _check_of(hints[each.name], each.metadata))
        for each in dataclasses.fields(kind)
    )


def _check_of(kind: Any, bounds: Any) -> _Check:
    if isinstance(kind, UnionType):
        inner = next(option for option in get_args(kind) if option is not NoneType)
        check = _check_of(inner, bounds)
        return lambda value: None if value is None else _or_none(check(value))
    if kind is int:
        return _check_number(bounds["least"], bounds["most"])
    if get_origin(kind) is tuple:
        check_each = _check_number(bounds["least"], bounds["most"])
        return lambda value: _check_each(value, check_each)
    if isinstance(kind, type) and issubclass(kind, Enum):
        allowed = ", ".join(f"{kind.__name__}.{name}" for name in kind.__members__)
        return lambda value: None if isinstance(value, kind) else f"one of {allowed}"
    if kind in (bool, str):
        wanted = "True or False" if kind is bool else "a text"
        return lambda value: None if isinstance(value, kind) else wanted
    return _check_other(kind)


def _check_other(kind: Any) -> _Check:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return lambda value: None if isinstance(value, kind) else f"{kind.__name__}(...)"
    return lambda value: None if callable(value) else "a function"


def _check_number(least: int, most: int) -> _Check:
    wanted = f"a whole number from {least} to {most}"

    def check(value: Any) -> str | None:
        is_number = isinstance(value, int) and not isinstance(value, bool | Enum)
        return None if is_number and least <= value <= most else wanted

    return check


def _or_none(wanted: str | None) -> str | None:
    return wanted and f"{wanted}, or None"


def _check_each(value: Any, check: _Check) -> str | None:
    if not isinstance(value, tuple) or not value:
        return "a tuple with at least one number"
    wanted = next((wish for wish in map(check, value) if wish), None)
    return wanted and f"a tuple whose values are each {wanted}"
