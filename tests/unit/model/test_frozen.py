"""`model.frozen` makes what `dataclasses` makes, but for the time it takes."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cometmq.model import frozen


def _shapes(dataclass: Callable[..., Any]) -> tuple[Any, Any, Any, Any]:
    """The same four classes, made by one decorator or the other."""

    @dataclass(frozen=True, slots=True)
    class Base:
        """A required field, a default, a factory."""

        name: str
        size: int = 3
        table: Mapping[str, int] = dataclasses.field(default_factory=dict)
        secret: str = dataclasses.field(default="s", repr=False)

    @dataclass(frozen=True, slots=True)
    class Layered(Base):
        """More fields behind those of its base, one of them given anew."""

        size: int = 4
        more: int | None = None

        @property
        def twice(self) -> int:
            return self.size * 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        """By name alone, the required one last."""

        first: int = 1
        last: str

    @dataclass(frozen=True, slots=True)
    class Empty:
        """A sign, which holds nothing."""

    return Base, Layered, Named, Empty


USUAL = _shapes(dataclasses.dataclass)
OURS = _shapes(frozen.dataclass)

CALLS: list[tuple[int, tuple[Any, ...], dict[str, Any]]] = [
    (0, ("a",), {}),
    (0, ("a", 5, {"x": 1}, "t"), {}),
    (0, (), {"name": "a", "size": 9}),
    (1, ("a",), {}),
    (1, ("a", 5), {"more": 7}),
    (2, (), {"last": "z"}),
    (2, (), {"last": "z", "first": 2}),
    (3, (), {}),
]
WRONG: list[tuple[int, tuple[Any, ...], dict[str, Any]]] = [
    (0, (), {}),
    (0, ("a", 1, {}, "s", 5), {}),
    (0, ("a",), {"name": "b"}),
    (1, ("a",), {"nobody": 1}),
    (2, (1, "z"), {}),
    (2, (), {"first": 1}),
    (3, (1,), {}),
]


@pytest.mark.parametrize(("shape", "values", "named"), CALLS)
def test_an_instance_is_as_the_usual_one(
    shape: int, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    usual, ours = USUAL[shape](*values, **named), OURS[shape](*values, **named)
    assert repr(ours) == repr(usual)
    assert dataclasses.asdict(ours) == dataclasses.asdict(usual)
    assert ours == OURS[shape](*values, **named)
    assert ours != usual  # Of another class.
    assert ours != dataclasses.astuple(ours)
    assert type(ours).__match_args__ == type(usual).__match_args__
    assert type(ours).__slots__ == type(usual).__slots__
    assert not hasattr(ours, "__dict__")


@pytest.mark.parametrize(("shape", "values", "named"), WRONG)
def test_wrong_arguments_are_refused_in_the_same_words(
    shape: int, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError) as usual:
        USUAL[shape](*values, **named)
    with pytest.raises(TypeError) as ours:
        OURS[shape](*values, **named)
    assert str(ours.value) == str(usual.value)


def test_the_arguments_are_known_before_the_first_instance() -> None:
    base, layered, *others = _shapes(frozen.dataclass)
    for ours, usual in zip((base, layered, *others), USUAL, strict=True):
        fields = [(each.name, each.kw_only) for each in dataclasses.fields(usual)]
        assert [(each.name, each.kw_only) for each in dataclasses.fields(ours)] == fields
    # A base whose subclass came first, and the other way round.
    assert layered("a").twice == 8
    assert base("a").size == 3
    assert list(inspect.signature(base).parameters) == ["name", "size", "table", "secret"]


def test_each_instance_has_a_table_of_its_own() -> None:
    base = OURS[0]
    one, other = base("a"), base("a")
    one.table["x"] = 1
    assert other.table == {}


def test_nothing_of_it_can_be_changed() -> None:
    one = OURS[1]("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'size'"):
        one.size = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.unheard_of = 5
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'size'"):
        del one.size
    assert one.size == 4


def test_equal_ones_have_one_hash() -> None:
    named = OURS[2]
    assert {named(last="z"): 1}[named(last="z")] == 1
    assert named(last="z") != named(last="y")
    with pytest.raises(TypeError, match="unhashable"):
        hash(OURS[0]("a"))  # A dict is in it.


def test_what_the_class_says_itself_stands() -> None:
    @frozen.dataclass(frozen=True, slots=True)
    class Own:
        """With words of its own."""

        value: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return False

        def __hash__(self) -> int:
            return 7

    assert repr(Own(1)) == "own"
    assert Own(1) != Own(1)
    assert hash(Own(1)) == 7


@frozen.dataclass(frozen=True, slots=True)
class Travelling:
    """At the top of a module, where pickle finds it."""

    name: str
    size: int = 3


def test_it_is_copied_and_pickled() -> None:
    one = Travelling("a", 5)
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.copy(one) == one
    assert copy.deepcopy(one) == one
    assert dataclasses.replace(one, size=6) == Travelling("a", 6)


def test_a_class_that_needs_more_is_refused() -> None:
    with pytest.raises(AssertionError, match="nobody would call it"):

        @frozen.dataclass(frozen=True, slots=True)
        class Checked:
            """It looks at itself."""

            value: int

            def __post_init__(self) -> None:
                raise ValueError
