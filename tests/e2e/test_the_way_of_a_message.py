"""docs/the-way-of-a-message.md and README's short table are true: their files and functions run.

One message goes from a producer through an embedded broker to a consumer while every function that
is entered is written down; each function that the page names must be among them.
"""

import ast
import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from cometmq import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.broker.send import fast_path
from cometmq.embedded import Embedded
from tests.support.programs import run_program

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "cometmq"
TOPIC = "way"
SECONDS_MAX = 30.0
FIRST_MESSAGES = (
    10  # They make the topic, and open the lane of each queue: the next takes the fast path.
)
PAGES = ("docs/the-way-of-a-message.md", "README.md")
# | what happens | `client/producer/sender.py` | `Sender.start` |
STEP = re.compile(
    r"^\|[^|]*\| `(?P<file>[\w/]+\.pyx?)` \| `(?P<function>[\w.]+)`[^|]*\|$", re.MULTILINE
)


class Step(NamedTuple):
    """A step of a message, as a page names it."""

    page: str
    file: str
    function: str


def steps() -> list[Step]:
    """The steps of both pages."""
    return [
        Step(page, match["file"], match["function"])
        for page in PAGES
        for match in STEP.finditer((ROOT / page).read_text())
    ]


@cache
def functions(file: str) -> frozenset[str]:
    """Functions and methods of a file, as `name` and `Class.name`."""
    text = (SOURCE / file).read_text()
    if file.endswith(".pyx"):
        return frozenset(re.findall(r"^def (\w+)\(", text, re.MULTILINE))
    tree = ast.parse(text)
    found = set()
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        found |= {
            prefix + part.name
            for part in inner
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return frozenset(found)


@contextmanager
def entered() -> Iterator[set[tuple[str, str]]]:
    """(file, function) of everything of ours that any thread enters meanwhile."""
    seen: set[tuple[str, str]] = set()
    start = f"{SOURCE}/"

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(start):
            seen.add((code.co_filename.removeprefix(start), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def one_message(nameserver: str) -> StoredMessage:
    """Send a message and take it with a push consumer that waits for it already."""
    taken: asyncio.Queue[StoredMessage] = asyncio.Queue()
    async with (
        AsyncProducer(nameserver) as producer,
        AsyncPushConsumer(
            nameserver,
            group="travellers",
            listener=taken.put,
            subscriptions=[TOPIC],
            settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST),
        ),
    ):
        for _ in range(FIRST_MESSAGES):
            await producer.send(Message(TOPIC, b"to find the queues"))
            await asyncio.wait_for(taken.get(), SECONDS_MAX)
        await producer.send(Message(TOPIC, b"one message", tag="all", keys="the-way"))
        return await asyncio.wait_for(taken.get(), SECONDS_MAX)


def test_each_page_names_steps() -> None:
    assert {step.page for step in steps()} == set(PAGES)


@pytest.mark.parametrize("step", steps(), ids=lambda step: f"{step.file}:{step.function}")
def test_the_function_of_each_step_exists(step: Step) -> None:
    assert (SOURCE / step.file).is_file()
    assert step.function in functions(step.file)


def note_compiled(seen: set[tuple[str, str]]) -> None:
    """Have compiled functions noted where the fast path of sends calls them, which a profiler does not see."""
    for file, name in {
        (step.file, step.function) for step in steps() if step.file.endswith(".pyx")
    }:

        def noted(*arguments: Any, at: tuple[str, str], call: Any) -> Any:
            seen.add(at)
            return call(*arguments)

        call = partial(noted, at=(file, name), call=getattr(fast_path, name))
        setattr(fast_path, name, call)


def walk() -> list[tuple[str, str]]:
    """Everything that is entered while a message goes its way, with either flush."""
    with entered() as seen:
        note_compiled(seen)
        for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            with Embedded(settings={"flushDiskType": flush}) as cluster:
                message = asyncio.run(one_message(cluster.nameserver))
            assert message.body == b"one message"
    return sorted(seen)


def walked(kernel: str) -> set[tuple[str, str]]:
    """The walk of a process with this kernel."""
    env = {"COMETMQ_KERNEL": kernel}
    walked = run_program(sys.executable, "-m", __name__, cwd=ROOT, env=env, seconds=90)
    return {(file, function) for file, function in json.loads(walked.stdout)}


@pytest.mark.compiled
def test_one_message_goes_the_way_that_the_pages_draw() -> None:
    # On the plain kernel, too: a profiler does not see the compiled one, which is held equal elsewhere.
    seen = walked("fast") | walked("reference")
    assert {(step.file, step.function) for step in steps()} - seen == set()


if __name__ == "__main__":
    print(json.dumps(walk()))
