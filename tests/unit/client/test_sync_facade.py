"""The blocking clients are the asyncio ones, method by method."""

import ast
import inspect
from pathlib import Path

import pytest

from cometmq.client.admin.noun import AsyncNoun
from tests.support.programs import said_by_python
from tests.support.public_names import public
from tools import sync_facade

ROOT = Path(__file__).resolve().parents[3]
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
