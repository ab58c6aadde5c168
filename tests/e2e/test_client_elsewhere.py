"""The client where something of Linux is absent: uvloop, or what macOS and Windows do not have.

Their absence is acted: modules cannot be imported and functions are gone, once Python's own modules have been imported. No
test has run on these systems.
"""

import subprocess
import sys

import pytest

from tests.support.programs import run_program, said_by_python

# What imports uvloop meets an ImportError from the first line on.
WITHOUT_UVLOOP = """
import sys
sys.modules["uvloop"] = None
"""
# Functions by the availability that Python's documentation of `os` states; C functions of Linux and glibc.
ON_MACOS = """
import asyncio, concurrent.futures, ctypes, os, ssl, subprocess, sys, sysconfig, tempfile, types, uuid
sysconfig.get_config_vars()
def without(*names):
    for name in names:
        delattr(os, name)
def library(name, *more, found=ctypes.CDLL, **options):
    return types.SimpleNamespace() if name is None else found(name, *more, **options)
without("fdatasync", "posix_fadvise", "posix_fallocate", "RWF_NOWAIT")
ctypes.CDLL = library
"""
ON_WINDOWS = (
    WITHOUT_UVLOOP
    + ON_MACOS
    + """
sys.modules |= dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios"))
without("writev", "pwrite", "pread", "preadv", "geteuid", "getuid", "sched_yield", "sysconf", "statvfs", "fchmod",
        "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY")
def none(*_): raise NotImplementedError
asyncio.SelectorEventLoop.add_signal_handler = none
"""
)
SYSTEMS = {
    "without uvloop": WITHOUT_UVLOOP, "macOS": ON_MACOS, "Windows": ON_WINDOWS
}  # fmt: skip
BLOCKING = """
import threading
from cometmq import Admin, Message, Producer, PullConsumer, PushConsumer
names, topic = sys.argv[1:]
got = threading.Event()
with Admin(names) as admin, Producer(names) as producer:
    admin.topics.create(topic, queues=1)
    print(producer.send(Message(topic, b"one")).status.value)
    print(producer.send_async(Message(topic, b"two")).result(30).queue_offset)
    with PullConsumer(names, group="pulls") as consumer:
        queue, = consumer.queues(topic)
        print([message.body for message in consumer.fetch(queue, 0).messages])
    with PushConsumer(
        names, group="pushes", subscriptions=[topic], listener=lambda message: got.set()
    ):
        producer.send(Message(topic, b"three"))
        print(got.wait(60))
print(type(producer._portal._loop).__module__.split(".")[0])
"""
ASYNC = """
import asyncio
from cometmq import AsyncProducer, AsyncPullConsumer, Message
names, topic = sys.argv[1:]
async def main():
    async with AsyncProducer(names) as producer:
        sent = await producer.send(Message(topic, b"four"))
        async with AsyncPullConsumer(names, group="async") as consumer:
            pulled = await consumer.fetch(sent.queue, sent.queue_offset)
            print(pulled.messages[0].body)
asyncio.run(main())
"""


def run(system: str, code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the code as on a system; on others than Linux no wheel brings the compiled kernel."""
    plain = {} if system == "without uvloop" else {"COMETMQ_KERNEL": "reference"}
    command = (sys.executable, "-c", SYSTEMS[system] + code, *arguments)
    return run_program(*command, status=None, seconds=120, env=plain)


def lines(system: str, code: str, *arguments: str) -> list[str]:
    done = run(system, code, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_client_sends_and_consumes(system, names):
    topic = system.replace(" ", "-")
    loop = "uvloop" if system == "macOS" else "asyncio"
    assert lines(system, BLOCKING, names, topic) == [
        "SEND_OK", "1", "[b'one', b'two']", "True", loop,
    ]  # fmt: skip
    assert lines(system, ASYNC, names, topic) == ["b'four'"]


@pytest.mark.parametrize(("system", "name"), [("macOS", "darwin"), ("Windows", "win32")])
@pytest.mark.parametrize("command", ["broker", "nameserver", "up"])
def test_a_server_says_that_it_needs_linux(system, name, command):
    program = f"""
import typer.rich_utils, cometmq.cli.programs
from cometmq.cli.__main__ import main
sys.platform = "{name}"
sys.argv[1:] = ["{command}"]
main()
"""
    done = run(system, program)
    assert done.returncode == 3
    assert "run on Linux only" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_import_brings_neither_a_loop_nor_a_codec():
    """Within 0.15 s of processor time: it brings next to nothing."""
    code = "import sys, cometmq.client; print([m for m in ('asyncio', 'uvloop', 'orjson', 'zstandard') if m in sys.modules])"
    assert said_by_python("-c", code) == "[]"
