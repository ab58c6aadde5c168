"""Frozen dataclasses with slots that are cheap to define, because they share most generated methods.

`dataclasses.dataclass(frozen=True, slots=True)` compiles six functions per class, which takes half a millisecond and
was a third of a broker's start. Classes made here mostly behave alike for `fields`, `replace`, `asdict` and type
checkers, but only `__init__` is compiled, on its first call; most headers and bodies are never created.

Use this for large families of internal classes, such as headers, bodies and settings. It does not support `order`,
`__post_init__`, nor `init`, `compare` and `hash` of a field; the standard decorator does. A class with `__slots__ = ()`
and without `slots=True` gives its fields to several classes, which may have other bases, too.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


def _dataclass(
    *, frozen: bool, slots: bool = False, kw_only: bool = False
) -> Callable[[type], type]:
    """Return a decorator that makes a class a frozen dataclass; `slots` is only False for one with `__slots__ = ()`."""
    assert frozen, "others are made by dataclasses.dataclass"
    return partial(_made, slots=slots, kw_only=kw_only)


if TYPE_CHECKING:
    from dataclasses import dataclass  # Type checkers see no difference.
else:
    dataclass = _dataclass

_NOT_GIVEN = object()  # Marks a value that the field's factory makes.


def _made(plain: type, *, slots: bool, kw_only: bool) -> type:
    assert not hasattr(plain, "__post_init__"), "nobody would call it"
    assert slots or plain.__dict__.get("__slots__") == (), "the fields are in slots"
    made: type = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
    )(plain)
    for name, shared in {"__init__": _first_init(made), **_SHARED}.items():
        if name not in plain.__dict__:
            setattr(made, name, shared)
    return made


def _first_init(kind: Any) -> Callable[..., None]:
    """Return an `__init__` that replaces itself with the compiled one when first called."""

    def init(self: Any, *values: Any, **named: Any) -> None:
        kind.__init__ = compiled = _compiled_init(kind)
        compiled(self, *values, **named)

    return init


def _compiled_init(kind: Any) -> Callable[..., None]:
    """Compile and return the `__init__` of a class, which sets each field through its slot."""
    scope: dict[str, Any] = {"_NOT_GIVEN": _NOT_GIVEN}
    heads: tuple[list[str], list[str]] = ["self"], ["*"]
    lines = []
    for part in dataclasses.fields(kind):
        name, value, head = part.name, part.name, part.name
        if part.default is not dataclasses.MISSING:
            scope[f"_{name}"] = part.default
            head = f"{name}=_{name}"
        elif part.default_factory is not dataclasses.MISSING:
            scope[f"_{name}"] = part.default_factory
            head, value = f"{name}=_NOT_GIVEN", f"_{name}() if {name} is _NOT_GIVEN else {name}"
        heads[part.kw_only is True].append(head)
        scope[f"_set_{name}"] = getattr(kind, name).__set__
        lines.append(f" _set_{name}(self, {value})")
    words = ", ".join(heads[0] + (heads[1] if len(heads[1]) > 1 else []))
    exec(f"def __init__({words}):\n" + "\n".join(lines or [" pass"]), scope)  # noqa: S102  As dataclasses does.
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    return init


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__dataclass_fields__)


def _equals(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    shown = (
        f"{part.name}={getattr(self, part.name)!r}"
        for part in dataclasses.fields(self)
        if part.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(_self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _restore(self: Any, values: tuple[Any, ...]) -> None:
    for name, value in zip(self.__dataclass_fields__, values, strict=True):
        object.__setattr__(self, name, value)


_SHARED: dict[str, Any] = {
    "__eq__": _equals,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _values,
    "__setstate__": _restore,
}
