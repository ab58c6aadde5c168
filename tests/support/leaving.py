"""A program that forks one process for each way to leave the blocks of all client classes.

    python -m tests.support.leaving NAMESERVERS FOLDER PREFIX

Each process starts every client, has a message under way in each consumer, and then leaves in its way. The program prints
"ready" when all have come so far, and goes on with the next line of its input; where its first letter is one of
`tests.support.refused_calls`, processes that need no signal make those calls first. In the end the program prints, as JSON by
case, the exit status (-14: it hung) and stderr. What listeners finished stands in FOLDER.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from cometmq import Message, StoredMessage
from cometmq.client.consumer.settings import (
    ConsumeFrom,
    PullConsumerSettings,
    PushConsumerSettings,
    SimpleConsumerSettings,
)
from cometmq.client.settings import ClientSettings, ProducerSettings
from cometmq.errors import CometError
from tests.support.public_names import public
from tests.support.refused_calls import REFUSED, WORKER, Calls, ask, ask_on_a_loop

SECONDS_MAX = 150
WAYS = {
    "the end of the block": 0,
    "an exception": 1,
    "a cancellation": 1,
    "sys.exit": 7,
    "SIGTERM": 0,
    "SIGINT": 0,
    "interpreter exit": 0,
    "fork": 0,
}
# Those that close the clients.
IN_ORDER = WAYS.keys() - {"interpreter exit"}
CASES = [(face, way) for face in ("blocking", "async") for way in WAYS]
_ENDS = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
# What cuts off a call that waits, in a thread.
SIGNALS = {"blocking": {**_ENDS, "a cancellation": signal.SIGUSR1}, "async": _ENDS}


def topic_of(prefix: str, number: int) -> str:
    return f"{prefix}_{number}"


class Case:
    """One process: its clients, and the pipes by which it is told."""

    def __init__(self, names: str, folder: Path, prefix: str, number: int) -> None:
        self.names, self.number = names, number
        self.face, self.way = CASES[number]
        self.topic = topic_of(prefix, number)
        self.journal = os.open(folder / self.topic, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.stderr = folder / f"{self.topic}.err"
        self.is_ready, self.ready = os.pipe()
        self.go, self.begin = os.pipe()  # Of the main thread.
        self.released, self.release = os.pipe()  # Of the listener.
        self.begun = threading.Event()
        self.popped: dict[bytes, StoredMessage] = {}

    def tell_ready(self) -> None:
        """Say that this process may be ended; a process that ends by a signal says so once `wait` listens to it."""
        if self.way in _ENDS:
            # asyncio's own handler of SIGINT is none of `wait`.
            before = signal.getsignal(_ENDS[self.way])
            threading.Thread(target=self._tell_when_heard, args=[before], daemon=True).start()
        else:
            os.write(self.ready, b"r")

    def _tell_when_heard(self, before: object) -> None:
        while signal.getsignal(_ENDS[self.way]) == before:
            time.sleep(0.005)
        os.write(self.ready, b"r")

    def calls(self, clients: dict[str, Any]) -> Calls:
        """Wait until the cluster fails; the calls that it refuses now."""
        made = REFUSED.get(os.read(self.go, 1).decode())
        return made(clients, self.topic, self.popped[b"1"]) if made else ()

    def arguments(self) -> dict[str, dict[str, Any]]:
        """The arguments of each client class."""
        known: dict[str, Any] = {"credentials": WORKER}
        first = {"consume_from": ConsumeFrom.FIRST, **known}
        sending, plain = ProducerSettings(**known), ClientSettings(**known)
        reading = PullConsumerSettings(**first)
        push = PushConsumerSettings(**first, concurrency=1)
        listener = self.handle if self.face == "blocking" else self.listen
        wanted = {"subscriptions": [self.topic]}
        return {
            "Admin": {"settings": plain},
            "QueueReader": {"settings": reading},
            "ReplayClaims": {"settings": plain, "group": f"{self.topic}_pull"},
            "EncodedProducer": {"settings": sending, "group": "encoded"},
            "Producer": {"settings": sending},
            "PullConsumer": {"settings": reading, "group": f"{self.topic}_pull", **wanted},
            "SimpleConsumer": {
                "settings": SimpleConsumerSettings(**first, invisible_ms=15_000),
                "group": f"{self.topic}_simple",
                **wanted,
            },
            "PushConsumer": {
                "settings": push,
                "group": f"{self.topic}_push",
                "listener": listener,
                **wanted,
            },
        }

    def handle(self, message: StoredMessage) -> None:
        if message.body == b"1":
            self.begun.set()
            os.read(self.released, 1)
        os.write(self.journal, message.body)

    async def listen(self, message: StoredMessage) -> None:
        if message.body == b"1":
            self.begun.set()
            await asyncio.to_thread(os.read, self.released, 1)
        os.write(self.journal, message.body)


def leave(way: str) -> None:
    """Leave in one of the ways that are the same for both faces."""
    if way == "an exception":
        raise ValueError("poison")
    if way == "sys.exit":
        sys.exit(7)


def fork(leave_child: Callable[[int], Any]) -> None:
    """Fork a child that leaves the blocks of its parent."""
    if not (pid := os.fork()):
        leave_child(5)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5


# --- blocking


def again(call: Callable[[], Any]) -> Any:
    """Call until it succeeds: a busy machine answers late."""
    while True:
        try:
            return call()
        except CometError:
            time.sleep(0.05)


async def again_on_a_loop(call: Callable[[], Awaitable[Any]]) -> Any:
    """Call until it succeeds: a busy machine answers late."""
    while True:
        try:
            return await call()
        except CometError:
            await asyncio.sleep(0.05)


def blocking(case: Case) -> None:
    with ExitStack() as stack:
        clients = {}
        for name, arguments in case.arguments().items():
            clients[name] = public(name)(case.names, **arguments)
            again(clients[name].start)
            if case.way in IN_ORDER:
                stack.enter_context(clients[name])
        work_blocking(case, clients)
        if case.way == "a cancellation":
            signal.signal(signal.SIGUSR1, cut_off)
        case.tell_ready()
        if case.way in _ENDS:
            clients["PushConsumer"].wait()
        elif case.way == "a cancellation":
            while True:
                again(lambda: clients["SimpleConsumer"].receive(1, wait_ms=60_000))
        else:
            ask(case.calls(clients))
        if case.way == "fork":
            fork(sys.exit)
        leave(case.way)


def cut_off(*_: object) -> None:
    raise TimeoutError


def work_blocking(case: Case, clients: dict[str, Any]) -> None:
    """Use every client; message 1 is under way in each consumer."""
    again(clients["Admin"].topics.list)
    again(clients["Admin"].brokers.missing)
    again(clients["QueueReader"].topics)
    again(lambda: clients["ReplayClaims"].take("run", []))
    again(lambda: clients["EncodedProducer"].queues(case.topic))
    again(lambda: clients["Producer"].send(Message(f"{case.topic}_sent", b"x")))
    for body in (b"0", b"1"):
        received: list[StoredMessage] = []
        while not received:
            received = clients["PullConsumer"].receive(1)
        assert received[0].body == body
    popped = case.popped
    while len(popped) < 2:
        for message in again(lambda: clients["SimpleConsumer"].receive(1)):
            popped[message.body] = message
    again(lambda: clients["SimpleConsumer"].ack(popped[b"0"]))
    assert case.begun.wait(SECONDS_MAX)


# --- asyncio


async def on_a_loop(case: Case) -> None:
    async with AsyncExitStack() as stack:
        clients = {}
        for name, arguments in case.arguments().items():
            clients[name] = public(f"Async{name}")(case.names, **arguments)
            await again_on_a_loop(clients[name].start)
            if case.way in IN_ORDER:
                await stack.enter_async_context(clients[name])
        await work_on_a_loop(case, clients)
        case.tell_ready()
        if case.way in _ENDS:
            await clients["PushConsumer"].wait()
        else:
            await ask_on_a_loop(await asyncio.to_thread(case.calls, clients))
        if case.way == "a cancellation":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        if case.way == "fork":
            fork(os._exit)  # A loop that runs cannot go on in the child.
        leave(case.way)


async def work_on_a_loop(case: Case, clients: dict[str, Any]) -> None:
    """Use every client; message 1 is under way in each consumer."""
    await again_on_a_loop(clients["Admin"].topics.list)
    await again_on_a_loop(clients["Admin"].brokers.missing)
    await again_on_a_loop(clients["QueueReader"].topics)
    await again_on_a_loop(lambda: clients["ReplayClaims"].take("run", []))
    await again_on_a_loop(lambda: clients["EncodedProducer"].queues(case.topic))
    message = Message(f"{case.topic}_sent", b"x")
    await again_on_a_loop(lambda: clients["Producer"].send(message))
    for body in (b"0", b"1"):
        received: list[StoredMessage] = []
        while not received:
            received = await clients["PullConsumer"].receive(1)
        assert received[0].body == body
    popped = case.popped
    while len(popped) < 2:
        for each in await again_on_a_loop(lambda: clients["SimpleConsumer"].receive(1)):
            popped[each.body] = each
    await again_on_a_loop(lambda: clients["SimpleConsumer"].ack(popped[b"0"]))
    assert await asyncio.to_thread(case.begun.wait, SECONDS_MAX)


# --- the program


def fork_all(names: str, folder: Path, prefix: str) -> Case | None:
    """Fork a process for each case; return its case there, and None here when all have ended."""
    cases = [Case(names, folder, prefix, number) for number in range(len(CASES))]
    pids: dict[int, Case] = {}
    for case in cases:
        if not (pid := os.fork()):
            signal.alarm(SECONDS_MAX)
            for other in cases[case.number + 1 :]:
                os.close(other.ready)
            error = os.open(case.stderr, os.O_CREAT | os.O_WRONLY)
            os.dup2(error, 2)
            os.dup2(error, 1)
            return case
        pids[pid] = case
        os.close(case.ready)
    for case in cases:
        os.read(case.is_ready, 1)  # Nothing: it has ended before.
    print("ready", flush=True)
    failure = sys.stdin.readline()[0].encode()
    for pid, case in pids.items():
        os.write(case.release, b"g")
        os.write(case.begin, failure)
        if case.way in SIGNALS[case.face]:
            os.kill(pid, SIGNALS[case.face][case.way])
    statuses = {
        case.number: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for pid, case in pids.items()
    }
    said = {case.number: (statuses[case.number], case.stderr.read_text()) for case in cases}
    print(json.dumps(said), flush=True)
    return None


if __name__ == "__main__":
    mine = fork_all(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    if mine is not None and mine.face == "blocking":
        blocking(mine)
    elif mine is not None:
        asyncio.run(on_a_loop(mine))
