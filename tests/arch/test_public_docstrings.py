"""The first line of every public docstring stands alone: a function does something, a class or a property is something."""

import functools
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import cometmq.errors
from cometmq.embedded import Embedded
from tests.support.public_names import public_names

# In the imperative; a verb that engineers use can be added.
VERB = re.compile(
    r"""(?x)(?:
    Acknowledge|Add|Allow|Begin|Cancel|Change|Check|Claim|Close|Commit|Continue|Count|Create|Decode|Delete|Do|Encode|End
    |Fetch|Hide|Let|Make|Move|Pull|Read|Receive|Record|Remove|Reply|Return|Roll|Run|Send|Set|Start|Stop|Store|Subscribe
    |Wait|Yield
    )\b"""
)
# Articles, and nouns that need none; each begins a noun phrase.
NOUN = re.compile(
    r"""(?x)(?:
    A|An|The|One|No|New|Address|Base|Bytes|Claims|Compressed|Counts|Directory|Encoded|Files|Interface|Kinds|Name|Number
    |Reasons|Settings|Symptoms|TLS|Tag|Time|Topic|Tuple|Wall|Whether
    )\b"""
)


def is_function(member: Any) -> bool:
    """Whether a class has a function of ours there; one of Python's, such as `time.monotonic`, has Python's docstring."""
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    return inspect.isfunction(member)


def docstrings() -> Iterator[tuple[str, bool, str | None]]:
    """Each public name with a docstring of ours, and each member: its place, whether it is called, its docstring."""
    errors = {name: getattr(cometmq.errors, name) for name in cometmq.errors.__all__}
    for name, given in {**public_names(), **errors, "Embedded": Embedded}.items():
        if inspect.isroutine(given):
            yield name, True, given.__doc__
        elif inspect.isclass(given):
            yield name, False, given.__doc__
            for kind in given.__mro__:
                if not kind.__module__.startswith("cometmq."):
                    continue
                for member, value in vars(kind).items():
                    if member.startswith("_"):
                        continue
                    if is_function(value):
                        yield f"{name}.{member}", True, value.__doc__
                    elif isinstance(value, property | functools.cached_property):
                        yield f"{name}.{member}", False, value.__doc__


ALL = list(docstrings())


def wrong_with(is_called: bool, text: str | None) -> str:
    """What a first line lacks; empty: nothing."""
    first = (text or "").strip().split("\n")[0]
    if not first.endswith("."):
        return f"no sentence or noun phrase with a full stop: {first!r}"
    if is_called and not VERB.match(first):
        return f"no verb in the imperative: {first!r}"
    if not is_called and not NOUN.match(first):
        return f"no noun phrase: {first!r}"
    return ""


def test_the_first_line_of_each_public_docstring_says_what_the_thing_does_or_is():
    assert len(ALL) > 600
    found = {
        place: wrong for place, is_called, text in ALL if (wrong := wrong_with(is_called, text))
    }
    assert not found


@pytest.mark.parametrize(
    ("is_called", "text"),
    [
        (True, "Returns a topic."), (True, "The topic."), (True, "What the broker says."), (True, None), (True, "Return a"),
        (False, "Reads queues."), (False, "Nothing came yet."), (False, "Any value"), (False, ""), (False, "It is one."),
    ],
)  # fmt: skip
def test_a_first_line_that_says_neither_is_found(is_called, text):
    assert wrong_with(is_called, text)
