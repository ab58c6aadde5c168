"""`cometmq.errors` has every error that can be caught, and the page of the client explains each."""

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cometmq
import cometmq.errors
from cometmq.model import errors as tree

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client.md"


def errors_of_the_tree() -> dict[str, type]:
    """All but those between brokers, which no caller of ours meets."""
    return {
        name: value
        for name, value in vars(tree).items()
        if inspect.isclass(value)
        and issubclass(value, tree.CometError)
        and not issubclass(value, tree.LinkError)
    }


def test_every_error_of_the_tree_is_exported_as_it_is():
    there = {name: getattr(cometmq.errors, name) for name in cometmq.errors.__all__}
    assert there == errors_of_the_tree()


def test_every_error_is_explained_on_the_page():
    page = PAGE.read_text()
    assert [name for name in errors_of_the_tree() if f"`{name}`" not in page] == []


# The arguments of those whose constructor wants more than a text.
ARGUMENTS: dict[type, tuple[Any, ...]] = {
    tree.RequestError: (13, "too large", {"field": "1"}),
    tree.BrokerRefused: (13, "too large", "10.0.0.1:10911"),
    tree.ExpressionError: ("no such word", "a = b", 3),
    tree.CopyingStopped: ("the logs differ", "compare them"),
}


@pytest.mark.parametrize(
    "travel", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize("kind", [*errors_of_the_tree().values(), tree.CopyingStopped])
def test_every_error_travels_between_processes(
    kind: type[Exception], travel: Callable[[Exception], Exception]
):
    error = kind(*ARGUMENTS.get(kind, ("a reason",)))
    again = travel(error)
    assert (type(again), str(again), vars(again)) == (kind, str(error), vars(error))
