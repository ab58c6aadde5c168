"""A listener in processes of its own: they end with their parent, and none that cannot start eats messages."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cometmq import (
    ConsumeFrom,
    InProcesses,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    PushConsumerSettings,
)
from cometmq.model.errors import ListenerError, SettingsError, TopicNotFound
from tests.support import processes
from tests.support.programs import run_program

TOPIC = "Worked"
GROUP = "workers"
COUNT = 10
# A message that is refused once is a dead letter at once.
STRICT = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, retries_max=0, concurrency=2)

PARENT = """
import os, sys, time
from cometmq import InProcesses
from tests.attacks.test_processes import own_pid
if __name__ == "__main__":
    with InProcesses(own_pid, processes=2) as listener:
        print(listener(0), listener(0), flush=True)
        time.sleep(600)
"""

NO_MAIN = """
import sys, time
from cometmq import ConsumeFrom, InProcesses, PushConsumer, PushConsumerSettings
def handle(message):
    pass
settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, retries_max=0)
with InProcesses(handle, processes=2) as listener:
    consumer = PushConsumer(sys.argv[1], group="workers", listener=listener, settings=settings)
    consumer.subscribe("Worked")
    with consumer:
        time.sleep(4)
"""

LISTENER = """
import os, pathlib
def work(message):
    with open(__file__ + ".done", "a") as done:
        done.write(f"{os.getpid()} {message.body.decode()}\\n")
"""


def own_pid(_given: object) -> Any:
    time.sleep(0.05)
    return os.getpid()


def worker(names: str, listener: InProcesses) -> PushConsumer:
    """A consumer of the topic, to be started."""
    consumer = PushConsumer(names, group=GROUP, listener=listener, settings=STRICT)
    consumer.subscribe(TOPIC)
    return consumer


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def dead_letters(names: str) -> int:
    with PullConsumer(names) as consumer:
        try:
            queues = consumer.queues(f"%DLQ%{GROUP}")
        except TopicNotFound:  # Nobody wrote a dead letter.
            return 0
        return sum(consumer.max_offset(queue) for queue in queues)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_one_that_made_them(tmp_path, how):
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as parent:
        assert parent.stdout is not None
        pids = {int(pid) for pid in parent.stdout.readline().split()}
        assert pids
        assert all(map(is_alive, pids))
        parent.send_signal(how)
        parent.wait(10)
        processes.wait_until(
            lambda: not any(map(is_alive, pids)), seconds=10, what=f"the end of {pids}"
        )


def test_a_pool_that_cannot_start_consumes_nothing_and_says_why(tmp_path, nameserver, broker):
    with Producer(nameserver.address) as producer:
        producer.send_many(Message(TOPIC, b"%d" % number) for number in range(COUNT))
    # Without `if __name__ == "__main__"` no process can import the program.
    program = tmp_path / "program.py"
    program.write_text(NO_MAIN)
    done = run_program(sys.executable, program, nameserver.address, status=1)
    assert dead_letters(nameserver.address) == 0
    assert (
        "it must be a function of a module, and the program must start its work below if __name__ =="
        in done.stderr
    )
    with pytest.raises(SettingsError, match="it must be a function of a module"):
        InProcesses(lambda _message: None, processes=1)
    for wrong in (0, -1):
        with pytest.raises(SettingsError, match="processes is"):
            InProcesses(own_pid, processes=wrong)


def end_idle_process(listener: InProcesses, pid: int) -> None:
    """Kill the only process of a listener, once the result of what it has done is here."""
    pool = listener._pool
    processes.wait_until(lambda: not pool._pending_work_items, seconds=20, what="its result")
    os.kill(pid, signal.SIGKILL)
    processes.wait_until(lambda: not is_alive(pid), seconds=5, what="its end")
    processes.wait_until(lambda: pool._broken, seconds=5, what="its loss")


def test_messages_wait_while_no_process_can_be_started(
    tmp_path, nameserver, broker, monkeypatch, caplog
):
    module = tmp_path / "the_listener.py"
    module.write_text(LISTENER)
    done = Path(f"{module}.done")
    monkeypatch.syspath_prepend(str(tmp_path))
    import the_listener  # type: ignore[import-not-found]

    def consumed() -> list[str]:
        return done.read_text().split() if done.exists() else []

    with (
        Producer(nameserver.address) as producer,
        InProcesses(the_listener.work, processes=1) as listener,
        worker(nameserver.address, listener),
    ):
        producer.send(Message(TOPIC, b"0"))
        pid, *_ = processes.wait_until(consumed, seconds=20, what="the first message")
        # The only process dies, and no other one can import the listener.
        module.rename(tmp_path / "away.py")
        end_idle_process(listener, int(pid))
        producer.send_many(Message(TOPIC, b"%d" % number) for number in range(1, COUNT))
        processes.wait_until(
            lambda: "no process can start" in caplog.text or dead_letters(nameserver.address),
            seconds=20,
            what="an attempt",
        )
        assert dead_letters(nameserver.address) == 0
        (tmp_path / "away.py").rename(module)
        processes.wait_until(
            lambda: sorted(map(int, consumed()[1::2])) == list(range(COUNT)),
            seconds=20,
            what="the other messages",
        )
    assert dead_letters(nameserver.address) == 0


@pytest.mark.parametrize("is_orderly", [False, True], ids=["concurrent", "orderly"])
def test_processes_closed_before_their_consumer_stop_it_and_lose_no_message(
    nameserver, broker, is_orderly
):
    with Producer(nameserver.address) as producer:
        producer.send_many(Message(TOPIC, b"%d" % number) for number in range(COUNT))
    settings = replace(STRICT, orderly=True, concurrency=20) if is_orderly else STRICT
    listener = InProcesses(own_pid, processes=1)
    consumer = PushConsumer(
        nameserver.address, group=GROUP, listener=listener, settings=settings
    )
    consumer.subscribe(TOPIC)
    with consumer:
        listener.close()
        with pytest.raises(ListenerError, match="were closed before the consumer"):
            consumer.wait()
    assert dead_letters(nameserver.address) == 0
    taken = set[bytes]()
    again = PushConsumer(
        nameserver.address,
        group=GROUP,
        listener=lambda message: taken.add(message.body),
        settings=STRICT,
    )
    again.subscribe(TOPIC)
    with again:
        processes.wait_until(lambda: len(taken) == COUNT, seconds=30, what="all messages")
