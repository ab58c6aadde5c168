"""`cometmq`, `cometmq.admin` and `cometmq.connect` import each name when it is asked for, and no more than that takes.

The blocking clients are the asyncio ones, method by method.
"""

import ast
import copy
import dataclasses
import inspect
import pickle
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cometmq
import cometmq.errors
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.sync.client import BlockingNoun
from cometmq.model import errors as tree
from tests.support.programs import said_by_python
from tests.support.public_names import TIERS, public, public_names
from tools import sync_facade


def typed_names(tier: ModuleType) -> dict[str, str]:
    """Where a type checker finds each name."""
    tree = ast.parse(Path(tier.__file__ or "").with_suffix(".pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert all(each.name == each.asname for node in imports for each in node.names)
    return {alias.name: node.module or "" for node in imports for alias in node.names}


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.__name__)
def test_what_is_promised_is_what_a_type_checker_sees_and_what_is_given(tier):
    assert sorted(typed_names(tier)) == sorted(tier.__all__)
    for name, module in typed_names(tier).items():
        assert getattr(tier, name) is vars(sys.modules[module])[name]
    assert set(tier.__all__) <= set(dir(tier))
    assert not hasattr(tier, "Consumer")


def test_a_name_is_public_in_one_place_and_the_first_tier_is_small():
    names = [name for tier in TIERS for name in tier.__all__]
    assert len(names) == len(set(names))
    assert len(TIERS[0].__all__) <= 50


@pytest.mark.parametrize(
    ("modules", "brought"),
    [
        ("cometmq.client.results", "'cometmq.client.producer.producer' in sys.modules"),
        ("cometmq", "'cometmq.client' in sys.modules"),
        ("cometmq.pytest_plugin", "'cometmq.broker' in sys.modules"),
        # The blocking clients' thread is made when one of them is used, not when it is named.
        ("cometmq; cometmq.Producer; import threading", "threading.active_count() > 1"),
    ],
    ids=["part", "package", "pytest-plugin", "thread"],
)
def test_an_import_does_not_bring_the_rest(modules, brought):
    assert said_by_python("-c", f"import sys, {modules}; print({brought})") == "False"


def types_in(hint: typing.Any) -> set[type]:
    """The classes of ours in a type."""
    parts = typing.get_args(hint)
    found = set().union(*(types_in(part) for part in flat(parts)))
    origin = typing.get_origin(hint) or hint
    if inspect.isclass(origin) and origin.__module__.startswith("cometmq."):
        found.add(origin)
    return found


def flat(parts: typing.Any) -> list[typing.Any]:
    return [each for part in parts for each in (part if isinstance(part, list) else [part])]


def public_signatures() -> dict[str, dict[str, typing.Any]]:
    """The types of arguments, results and fields of all that the package gives, by place."""
    hints = {}
    for name, given in public_names().items():
        if inspect.isfunction(given) or (
            isinstance(given, type) and dataclasses.is_dataclass(given)
        ):
            hints[name] = typing.get_type_hints(given)
        elif inspect.isclass(given):
            for part, member in inspect.getmembers(given):
                function = member.fget if isinstance(member, property) else member
                is_made_by_users = name not in (
                    "AsyncTransaction",
                    "Transaction",
                    "ClientInstance",
                ) and not issubclass(given, AsyncNoun | BlockingNoun)
                if inspect.isfunction(function) and (
                    not part.startswith("_") or (part == "__init__" and is_made_by_users)
                ):
                    # An admin client imports its subjects when they are used.
                    hints[f"{name}.{part}"] = typing.get_type_hints(
                        function, localns=public_names()
                    )
    return hints


def test_every_type_of_a_public_signature_can_be_imported():
    given = set(public_names().values())
    given |= {getattr(cometmq.errors, name) for name in cometmq.errors.__all__}
    # What Spark and the request layer of our own use of a instance is not for users.
    signatures = {
        k: v for k, v in public_signatures().items() if not k.startswith("ClientInstance.")
    }
    assert len(signatures) > 100
    missing = {
        (place, kind.__name__)
        for place, hints in signatures.items()
        for hint in hints.values()
        for kind in types_in(hint) - given
    }
    assert not missing


def test_a_star_import_gives_the_public_names():
    given: dict[str, object] = {}
    exec("from cometmq import *", given)
    assert given.keys() - {"__builtins__"} == set(TIERS[0].__all__)
    assert {"Producer", "PushConsumer", "Message", "virtual", "DeadLetter"} <= given.keys()


ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "cometmq"
# Classes of RocketMQ's clients that pages compare ours with.
OF_JAVA = {"ConsumeOrderlyContext", "ConsumeResult", "ConsumeStatus", "String"}


def members_by_class() -> dict[str, str]:
    """The source of each class of ours, by name; classes of one name count as one."""
    found: dict[str, str] = {}
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                own = ast.get_source_segment(text, node) or ""
                bases = "".join(f" <{ast.unparse(base)}>" for base in node.bases)
                found[node.name] = found.get(node.name, "") + own + bases
    return found


def is_member(classes: dict[str, str], name: str, member: str) -> bool:
    """Whether a class, or one that it is made of, has a member of that name."""
    source = classes.get(name, "")
    if re.search(rf"(def {member}\b|\b{member}:|\b{member} =|self\.{member}\b)", source):
        return True
    bases = re.findall(r" <(\w+)[^>]*>", source)
    return any(base != name and is_member(classes, base, member) for base in bases)


def test_each_member_that_pages_and_docstrings_of_the_client_name_is_there():
    """Names such as `OrderlyStatus.COMMIT` went stale when a class was renamed."""
    classes = members_by_class()
    pages = [ROOT / "docs" / name for name in ("client.md", "migrate.md")]
    stale = {
        f"{path.relative_to(ROOT)}: {name}.{member}"
        for path in (*pages, *(SOURCES / "client").rglob("*.py"))
        for name, member in re.findall(
            r"`([A-Z][A-Za-z]*[a-z])\.([A-Za-z_]+)", path.read_text()
        )
        if name not in OF_JAVA and not is_member(classes, name, member)
    }
    assert not stale


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


PAIRS = [
    (public("AsyncProducer"), public("Producer")),
    (public("AsyncPushConsumer"), public("PushConsumer")),
    (public("AsyncPullConsumer"), public("PullConsumer")),
    (public("AsyncAdmin"), public("Admin")),
    *((public(name), public(name.removeprefix("Async"))) for name in sync_facade.NOUNS),
    (public("AsyncTransaction"), public("Transaction")),
    (public("AsyncSimpleConsumer"), public("SimpleConsumer")),
    (public("AsyncReplayClaims"), public("ReplayClaims")),
    (public("AsyncQueueReader"), public("QueueReader")),
    (public("AsyncEncodedProducer"), public("EncodedProducer")),
]


def members(cls: type) -> dict[str, object]:
    return {name: value for name, value in vars(cls).items() if not name.startswith("_")}


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda cls: cls.__name__)
def test_methods_and_their_parameters_agree(one, other):
    futures = {
        name
        for name, value in members(one).items()
        if "asyncio.Future[" in str(getattr(value, "__annotations__", {}).get("return"))
    }
    # What gives a future has a twin that waits and, but for a transaction's ends, one that does not.
    unwaited = {f"{name}_async" for name in futures if hasattr(other, f"{name}_async")}
    assert unwaited == {
        f"{name}_async" for name in futures if "Transaction" not in one.__name__
    }
    assert members(one).keys() | unwaited == members(other).keys()
    life = {"start", "close", "client_id"}
    is_part = "Transaction" in one.__name__ or issubclass(one, AsyncNoun)
    assert is_part or life <= {*dir(one)} & {*dir(other)}
    for name, value in members(one).items():
        if inspect.isfunction(value):
            wanted = inspect.signature(value).parameters
            for twin in {name, f"{name}_async"} & members(other).keys():
                assert inspect.signature(getattr(other, twin)).parameters == wanted


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda cls: cls.__name__)
def test_nothing_of_the_blocking_side_speaks_of_await(one, other):
    text = inspect.getsource(other)
    assert "await " not in text.replace("asyncio", "")
    assert "async with" not in text
    assert "async for" not in text


def test_the_made_files_are_what_their_sources_make():
    said_by_python(ROOT / "tools" / "sync_facade.py", "--check")


def test_every_async_class_of_the_client_has_a_twin():
    folder = ROOT / "src" / "cometmq" / "client"
    named = {
        node.name
        for path in folder.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name.startswith("Async")
    }
    assert named == {one.__name__ for one, _ in PAIRS} | sync_facade.BASES.keys()


def test_a_rule_that_finds_nothing_is_an_error():
    with pytest.raises(ValueError, match="no class"):
        sync_facade.make("class Producer: ...", "producer")
    with pytest.raises(ValueError, match="no method"):
        sync_facade.make("class AsyncProducer:\n    '''Doc.'''\n    x = 1", "producer")


CLASS = "class AsyncThing:\n    async def send(self) -> None:\n        pass\n\n"


@pytest.mark.parametrize(
    ("method", "left_out"),
    [
        ("async def f(self, *names: str) -> None: ...", r"argument \*names"),
        ("async def f(self, **more: int) -> None: ...", r"argument \*more"),
        ("async def f(self, name: str, /) -> None: ...", "by place only"),
        ("@staticmethod\n    def f() -> None: ...", "decorator @staticmethod"),
        ("def __len__(self) -> int: ...", "method __len__"),
        ("def f(self) -> AsyncLater: ...", "result AsyncLater"),
        ("def f(self) -> Awaitable[int]: ...", r"result Awaitable\[int\]"),
        ("async def f(self) -> list[asyncio.Task[int]]: ...", "result list"),
    ],
)
def test_what_no_rule_translates_is_refused_and_not_left_out(method, left_out):
    with pytest.raises(ValueError, match=rf"AsyncThing\.\w+: no rule translates .*{left_out}"):
        sync_facade.make(f"{CLASS}    {method}\n", "thing")
