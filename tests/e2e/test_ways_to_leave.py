"""Programs that leave a block of a client: what the table of all clients and ways (`test_ways_table.py`) does not have."""

import signal
import subprocess
import sys
import time

import pytest

from cometmq import PullConsumer
from tests.support import topics
from tests.support.programs import run_program

SECONDS_MAX = 60
HEAD = """
import atexit, os, signal, sys
from cometmq import ConsumeFrom, Message, Producer, PullConsumer, PullConsumerSettings

names, topic, group = sys.argv[1:]
settings = PullConsumerSettings(consume_from=ConsumeFrom.FIRST)


def consumer():
    return PullConsumer(names, group=group, subscriptions=[topic], settings=settings)

"""
# How the block is left while message 1 is being worked on, and the exit status of the program.
LEAVES = {
    "an exception": ("raise ValueError('poison')", 1),
    "sys.exit": ("sys.exit(7)", 7),
    "KeyboardInterrupt": ("signal.raise_signal(signal.SIGINT)", -2),
    "SystemExit by a signal": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); signal.raise_signal(signal.SIGTERM)",
        9,
    ),
}


def run(program: str, names: str, topic: str, group: str) -> subprocess.CompletedProcess[str]:
    """Run a program against the cluster; one that hangs fails the test."""
    command = (sys.executable, "-c", HEAD + program, names, topic, group)
    return run_program(*command, status=None, seconds=SECONDS_MAX)


@pytest.fixture
def place(names: str, request: pytest.FixtureRequest) -> tuple[str, str]:
    """A topic of one queue with the messages 0 to 4, and a group that begins at its first message."""
    topic = f"leaves_{abs(hash(request.node.name))}"
    topics.make(names, topic, groups=(f"{topic}_group",))
    topics.send(names, topic, *(b"%d" % number for number in range(5)))
    return topic, f"{topic}_group"


def rest_of(names: str, topic: str, group: str) -> list[bytes]:
    """The messages up to the last one, 4, that a member of the group is given."""
    found: list[bytes] = []
    deadline = time.monotonic() + 20
    with PullConsumer(names, group=group, subscriptions=[topic]) as consumer:
        while b"4" not in found and time.monotonic() < deadline:
            found += [message.body for message in consumer.receive(5, wait_ms=1_000)]
    return found


@pytest.mark.parametrize("way", LEAVES)
def test_the_message_under_way_comes_again_however_a_loop_over_a_pull_consumer_is_left(
    names, place, way
):
    statement, status = LEAVES[way]
    program = f"""
with consumer() as k:
    for m in k:
        if m.body == b"1":
            {statement}
"""
    done = run(program, names, *place)
    assert done.returncode == status, done.stderr
    assert rest_of(names, *place) == [b"1", b"2", b"3", b"4"]


def test_a_client_that_is_used_while_the_interpreter_exits_is_refused_and_closes_quietly(
    names, place
):
    """The hook runs after the portal has stopped, for it was registered before the portal was made."""
    program = """
@atexit.register
def leave():
    try:
        producer.send(Message(topic, b"late"))
    except Exception as error:
        print(type(error).__name__, error)
    producer.close()
    print("closed")


producer = Producer(names)
producer.start()
producer.send(Message(topic, b"5"))
"""
    done = run(program, names, *place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "ClientClosed the interpreter is exiting and has cut the clients off; close them before the program ends",
        "closed",
    ]


def test_a_child_that_leaves_its_parents_block_ends_by_its_own_error(names, place):
    program = """
import warnings
warnings.simplefilter("ignore")
with Producer(names) as producer, consumer() as k:
    producer.send(Message(topic, b"5"))
    if not (pid := os.fork()):
        raise KeyError("own")
    _, ended = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(ended))
    producer.send(Message(topic, b"6"))
print("ended")
"""
    done = run(program, names, *place)
    assert done.stdout.splitlines()[-2:] == ["1", "ended"], done.stderr
    assert "ClientClosed" not in done.stderr


def test_a_client_that_was_only_constructed_before_a_fork_starts_in_the_child(names, place):
    program = """
import warnings
warnings.simplefilter("ignore")
producer = Producer(names)  # A module's global, as under `gunicorn --preload`.
with Producer(names) as other:
    other.send(Message(topic, b"of the parent"))
if not (pid := os.fork()):
    with producer:
        producer.send(Message(topic, b"of the child"))
    print("sent", flush=True)
    os._exit(0)
_, ended = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(ended))
"""
    done = run(program, names, *place)
    assert (done.returncode, done.stdout) == (0, "sent\n"), done.stderr


@pytest.mark.parametrize("way", ["sys.exit(3)", "raise KeyboardInterrupt"])
def test_the_thread_of_all_blocking_clients_survives_what_is_no_exception(names, place, way):
    program = f"""
from cometmq.client.sync.portal import portal


async def callback():
    {way}


with Producer(names) as producer:
    portal().start(lambda: __import__("asyncio").ensure_future(callback()))
    producer.send(Message(topic, b"5"), timeout_ms=10_000)
print("sent")
"""
    done = run(program, names, *place)
    assert (done.returncode, done.stdout) == (0, "sent\n"), done.stderr


WORKER = """
async def handle(message):
    os.write(1, b"begun\\n")
    await asyncio.sleep(1.5)
    os.write(1, b"ended\\n")


async def main():
    async with AsyncPushConsumer(
        names, group=group, listener=handle, subscriptions=[topic], settings=pushing
    ) as c:
        await c.wait()
    print("left", flush=True)


uvloop.run(main())
"""
PUSHING = """
import asyncio, time, uvloop
from cometmq import AsyncPushConsumer, PushConsumer, PushConsumerSettings

pushing = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, concurrency=2)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_on_uvloop_ends_warm_by_sigterm_and_ctrl_c(names, place, number):
    """`docker stop`, Kubernetes and Ctrl-C: listeners under way finish and are committed, the others' messages come again."""
    program = HEAD + PUSHING + WORKER
    with subprocess.Popen(
        [sys.executable, "-c", program, names, *place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        said = [running.stdout.readline(), running.stdout.readline()]
        assert said == ["begun\n", "begun\n"]
        running.send_signal(number)
        said = running.stdout.read().split()
        assert (running.wait(SECONDS_MAX), running.stderr.read()) == (0, "")
    assert said == ["ended", "ended", "left"]
    assert rest_of(names, *place) == [b"2", b"3", b"4"]


def test_a_program_that_handles_sigterm_itself_keeps_its_handler(names, place):
    program = """
def handle(message):
    print("given", flush=True)


signal.signal(signal.SIGTERM, lambda *_: (print("own", flush=True), os._exit(4)))
with PushConsumer(names, group=group, listener=handle, subscriptions=[topic], settings=pushing) as c:
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    c.wait()
"""
    done = run(PUSHING + program, names, *place)
    assert (done.returncode, done.stdout.split()[-1]) == (4, "own"), done.stderr


def test_sends_that_a_closed_producer_has_not_sent_end_with_an_error_at_once(names, place):
    """The first sends of a topic wait for its route; a task that is cancelled before its first step must end them, too."""
    program = """
import asyncio, concurrent.futures
from cometmq import AsyncProducer


async def main():
    async with AsyncProducer(names) as producer:
        sends = [producer.send(Message(topic, b"x")) for _ in range(10)]
    async with asyncio.timeout(20):
        print({type(each).__name__ for each in await asyncio.gather(*sends, return_exceptions=True)})


asyncio.run(main())
with Producer(names) as producer:
    sends = [producer.send_async(Message(topic, b"x")) for _ in range(2000)]
done, waiting = concurrent.futures.wait(sends, timeout=20)
print(len(waiting), {type(each.exception()).__name__ for each in done} <= {"ClientClosed", "NoneType"})
"""
    done = run(program, names, *place)
    assert done.stdout.splitlines() == ["{'ClientClosed'}", "0 True"], done.stderr
