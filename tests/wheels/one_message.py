"""One message through an installed CometMQ: its nameserver and its broker as programs, its client here.

It uses the package and Python's own library only, and so runs where nothing else is installed: as the test of each wheel
(`test-command` in pyproject.toml) and in the environments of `tests/wheels`. What is wrong ends it with a traceback.
"""

from __future__ import annotations

import json
import re
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version as installed_version
from pathlib import Path

import cometmq
from cometmq import Message, Producer, PullConsumer

COMMAND = Path(sysconfig.get_path("scripts")) / "cometmq"
SECONDS_MAX = 60


def said(*arguments: str) -> str:
    """What a command prints."""
    return subprocess.run(
        [COMMAND, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS_MAX,
    ).stdout


@contextmanager
def running(*arguments: str) -> Iterator[str]:
    """A server until the end of the block; its address."""
    with subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            address = re.search(r"[\d.]+:\d+", line)
            assert "boot success" in line
            assert address is not None
            yield address[0]
        finally:
            server.terminate()
    assert server.returncode == 0


def brokers(nameserver: str) -> list[dict[str, str]]:
    """The brokers that the nameserver knows; it is asked until there is one."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (lines := json.loads(said("cluster", "list", "--json", "-n", nameserver))):
        assert time.monotonic() < deadline, "the broker does not come to its nameserver"
    return list(lines)


def main() -> None:
    """Send and consume a message, and print the line of `cometmq --version`."""
    version = said("--version").strip()
    assert version.startswith(f"cometmq {installed_version('cometmq')} (kernel compiled, "), (
        version
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        running("nameserver", "--listen-port", "0") as nameserver,
    ):
        settings = {
            "--listen-port": "0",
            "--metrics-prom-exporter-port": "0",
            "--store-path-root-dir": folder,
            "--mapped-file-size-commit-log": str(16 << 20),
        }
        flags = [word for pair in settings.items() for word in pair]
        with running("broker", "-n", nameserver, *flags):
            [line] = brokers(nameserver)
            assert (line["state"], line["cometmq"]) == ("up", cometmq.__version__)
            with Producer(nameserver) as producer:
                sent = producer.send(Message("wheels", b"hello", tag="first", keys="1"))
            with PullConsumer(nameserver, group="wheels") as consumer:
                [message] = consumer.fetch(sent.queue, sent.queue_offset).messages
    assert (message.body, message.tag, message.keys) == (b"hello", "first", ("1",))
    print(version)


if __name__ == "__main__":
    main()
