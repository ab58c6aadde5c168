"""All client classes with a call of each, and programs in which clients outlive their event loop, process or interpreter.

    python -m tests.support.client_lives NAMESERVERS WAY

Each program starts a client of every class, lets them outlive their home in its way, and prints, as JSON by class, what
`use`, `start` and `close` answer then, and a further `use`: "done", or the error.
"""

import asyncio
import atexit
import json
import os
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cometmq import Admin, Message, Producer
from cometmq.admin import GroupConfig
from cometmq.embedded import Embedded
from tests.support.public_names import public

if TYPE_CHECKING:
    import pytest

TOPIC, EMPTY, GROUP = "life", "life_empty", "life_group"
SECONDS_MAX = 60


class Broken(Exception):
    """A start that fails."""


def break_start(one: Any, monkeypatch: "pytest.MonkeyPatch") -> None:
    """Let starts of a client fail as their last step, when all parts are there, until `monkeypatch.undo`."""
    opened = one._open

    async def fail() -> None:
        await opened()
        raise Broken

    monkeypatch.setattr(one, "_open", fail)


async def listen(_message: object) -> None:
    """Consume everything."""


def handle(_message: object) -> None:
    """Consume everything, in a thread."""


# The arguments of each class, the same for the asyncio and the blocking one, and a call of the running client.
CLASSES: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "Producer": ({"group": GROUP}, lambda one: one.send(Message(TOPIC, b"x"))),
    "EncodedProducer": ({"group": GROUP}, lambda one: one.queues(TOPIC)),
    "PushConsumer": (
        {"group": GROUP, "listener": listen, "subscriptions": [TOPIC]},
        lambda one: one.set_concurrency(2),
    ),
    "PullConsumer": (
        {"group": f"{GROUP}_pull", "subscriptions": [TOPIC]},
        lambda one: one.receive(1, wait_ms=100),
    ),
    "SimpleConsumer": (
        {"group": f"{GROUP}_simple", "subscriptions": [TOPIC]},
        lambda one: one.receive(1, wait_ms=100),
    ),
    "QueueReader": ({"group": GROUP}, lambda one: one.topics()),
    "Admin": ({}, lambda one: one.topics.list()),
    "ReplayClaims": ({"group": f"{GROUP}_pull"}, lambda one: one.take("run", [])),
}


@contextmanager
def small_cluster() -> Iterator[str]:
    """Run a cluster with the topics and groups of the classes; its nameserver."""
    with Embedded() as cluster:
        with Admin(cluster.nameserver) as admin, Producer(cluster.nameserver) as producer:
            for topic in (TOPIC, EMPTY):
                admin.topics.create(topic, queues=1)
            for group in (GROUP, f"{GROUP}_pull", f"{GROUP}_simple"):
                admin.groups.create(GroupConfig(group))
            producer.send(Message(TOPIC, b"x"))
        yield cluster.nameserver


def make(name: str, names: str | None, *, prefix: str = "Async", **more: Any) -> Any:
    arguments = {**CLASSES[name][0], **more}
    if not prefix and "listener" in arguments:
        arguments["listener"] = handle
    return public(prefix + name)(names, **arguments)


def make_all(names: str, prefix: str) -> dict[str, Any]:
    return {name: make(name, names, prefix=prefix) for name in CLASSES}


async def use(one: Any, name: str) -> Any:
    done = CLASSES[name][1](one)
    return await done if isinstance(done, Awaitable) else done


def use_blocking(one: Any, name: str) -> Any:
    return CLASSES[name][1](one)


async def left_of(one: Any) -> list[str]:
    """What is left of a client: tasks, connections and threads of listeners."""
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    threads = [each.name for each in threading.enumerate() if each.name.startswith("listener-")]
    return [
        *(task.get_name() for task in tasks),
        *one._instance.channels.open_addresses(),
        *threads,
    ]


# --- the answers


async def answer(call: Callable[..., Awaitable[Any]], *arguments: Any) -> str:
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await call(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


async def answers(clients: dict[str, Any]) -> dict[str, list[str]]:
    return {
        name: [
            await answer(use, one, name),
            await answer(one.start),
            await answer(one.close),
            await answer(use, one, name),
        ]
        for name, one in clients.items()
    }


def blocking_answer(call: Callable[..., Any], *arguments: Any) -> str:
    try:
        call(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def blocking_answers(clients: dict[str, Any]) -> dict[str, list[str]]:
    return {
        name: [
            blocking_answer(use_blocking, one, name),
            blocking_answer(one.start),
            blocking_answer(one.close),
            blocking_answer(use_blocking, one, name),
        ]
        for name, one in clients.items()
    }


def tell(found: object) -> None:
    print(json.dumps(found), flush=True)


# --- the programs


async def start_all(clients: dict[str, Any]) -> None:
    for name, one in clients.items():
        await one.start()
        await use(one, name)


def start_all_blocking(clients: dict[str, Any]) -> None:
    for name, one in clients.items():
        one.start()
        use_blocking(one, name)


def loop_is_over(names: str) -> None:
    """Nobody closes the clients before `asyncio.run` returns."""
    clients = make_all(names, "Async")
    asyncio.run(start_all(clients))
    tell(asyncio.run(answers(clients)))


def exit_async(names: str) -> None:
    """The hooks of the interpreter's exit are what still runs."""
    clients = make_all(names, "Async")
    atexit.register(lambda: tell(asyncio.run(answers(clients))))
    asyncio.run(start_all(clients))


def exit_blocking(names: str) -> None:
    """The hook runs after the loop of blocking clients has stopped, for it was registered before."""
    clients: dict[str, Any] = {}
    atexit.register(lambda: tell(blocking_answers(clients)))
    clients.update(make_all(names, ""))
    start_all_blocking(clients)


def in_child(work: Callable[[], Any]) -> None:
    """Fork a child that works and exits; wait for it."""
    if not (pid := os.fork()):
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def fork_async(names: str) -> None:
    """The parent's clients work on; those that were not started can be started in the child."""
    clients, others = make_all(names, "Async"), make_all(names, "Async")
    with asyncio.Runner() as runner:
        runner.run(start_all(clients))
        in_child(lambda: tell(asyncio.run(answers(clients))))
        in_child(lambda: tell(asyncio.run(answers_of_a_life(others))))
        tell(runner.run(answers(clients)))


async def answers_of_a_life(clients: dict[str, Any]) -> dict[str, list[str]]:
    for one in clients.values():
        await one.start()
    return await answers(clients)


def fork_blocking(names: str) -> None:
    """As `fork_async`."""
    clients, others = make_all(names, ""), make_all(names, "")
    start_all_blocking(clients)
    in_child(lambda: tell(blocking_answers(clients)))

    def live() -> None:
        start_all_blocking(others)
        tell(blocking_answers(others))

    in_child(live)
    tell(blocking_answers(clients))


WAYS: dict[str, Callable[[str], None]] = {
    each.__name__: each
    for each in (loop_is_over, exit_async, exit_blocking, fork_async, fork_blocking)
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    WAYS[sys.argv[2]](sys.argv[1])
