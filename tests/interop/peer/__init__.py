"""The official Java client at the end of a pipe: it sends what a test gives it, and tells what it reads."""

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.interop.reference import CACHE, OPENS, VERSION, class_path, java, quick_start
from tests.support.programs import run_program

SOURCE = Path(__file__).with_name("Peer.java")
SECONDS_MAX = 60.0
MARK = "PEER "


@dataclass(frozen=True, slots=True)
class Told:
    """A message, as a test gives it or the Java client tells it."""

    body: bytes
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    queue_id: int = -1
    queue_offset: int = -1


def send(nameserver: str, topic: str, messages: Iterable[Told]) -> list[dict[str, Any]]:
    """Let the Java client send `messages`; what it was answered for each."""
    lines = [
        json.dumps(
            {
                "body": base64.b64encode(message.body).decode(),
                "tags": message.tags,
                "keys": message.keys,
                "properties": dict(message.properties),
            }
        )
        for message in messages
    ]
    return run(["send", nameserver, topic], stdin="\n".join(lines) + "\n")


def read(nameserver: str, topic: str, count: int, *, seconds: float = 40) -> list[Told]:
    """What the Java client reads of a topic from its start, until there are `count` or time is up."""
    told = run(["read", nameserver, topic, str(count), str(int(seconds))], seconds=seconds + 20)
    return [
        Told(
            base64.b64decode(line["body"]),
            line.get("tags"),
            line.get("keys"),
            line["properties"],
            line["queueId"],
            line["queueOffset"],
        )
        for line in told
    ]


def run(
    arguments: list[str], *, stdin: str = "", seconds: float = SECONDS_MAX
) -> list[dict[str, Any]]:
    """Run Peer.java; its lines.

    Raises:
        AssertionError: it failed; the message holds what it said.
    """
    done = run_program(*program(VERSION), *arguments, stdin=stdin, seconds=seconds)
    return [
        json.loads(line.removeprefix(MARK))
        for line in done.stdout.splitlines()
        if line.startswith(MARK)
    ]


def program(version: str, *options: str) -> list[str]:
    """The command line of Peer.java with the client of a version, without its arguments."""
    home = f"-Duser.home={CACHE / 'peer'}"
    path = class_path(SOURCE, version)
    return [java(), "-Xmx256m", *quick_start(version), *OPENS, home, *options, *path, "Peer"]


class Piped:
    """Peer.java at the end of a pipe; it is killed in the end."""

    def __init__(
        self, arguments: Iterable[str], *, version: str = VERSION, poll_ms: int = 30_000
    ) -> None:
        """Begin nothing yet; `version` is the client's, `poll_ms` its pollNameServerInterval."""
        # Times of a test: a group is shared out, and its locks are renewed, each second.
        waits = [
            f"-Drocketmq.client.rebalance.{each}=1000"
            for each in ("waitInterval", "lockInterval")
        ]
        self._command = [*program(version, *waits, f"-Dpeer.poll={poll_ms}"), *arguments]
        self._program: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._program = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self._program is not None
        assert self._program.stdout is not None
        for line in self._program.stdout:
            if line.startswith(MARK):
                self.hear(json.loads(line.removeprefix(MARK)))

    def hear(self, said: dict[str, Any]) -> None:
        """Take a line that it wrote, in a thread of its own."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        assert self._program is not None
        self._program.kill()
        self._reader.join()
        with self._program:  # This closes its pipes.
            pass


class Stream(Piped):
    """A Java producer for each topic, which sends numbered messages one after the other.

    Attributes:
        told: what it was answered for each, by topic, in order: body, and error, or broker, queueId and queueOffset.
    """

    def __init__(self, nameserver: str, topics: Iterable[str], **more: Any) -> None:
        """Begin nothing yet."""
        self.told: dict[str, list[dict[str, Any]]] = {topic: [] for topic in topics}
        super().__init__(["stream", nameserver, *self.told], **more)

    def hear(self, said: dict[str, Any]) -> None:
        self.told[said["topic"]].append({**said, "at": time.monotonic()})

    def end(self) -> None:
        """Let it end in order, and wait until it has told everything."""
        assert self._program is not None
        assert self._program.stdin is not None
        self._program.stdin.close()
        assert self._program.wait(SECONDS_MAX) == 0
        self._reader.join()


class Members(Piped):
    """Java members of groups, one of each kind ("push", "ordered", "pop"), in one process.

    Attributes:
        told: what each was given, by kind.
    """

    def __init__(
        self, nameserver: str, groups: Mapping[str, tuple[str, str]], **more: Any
    ) -> None:
        """Begin nothing yet; `groups` has topic and group of each kind."""
        members = [f"{kind}:{topic}:{group}" for kind, (topic, group) in groups.items()]
        super().__init__(["members", nameserver, *members], **more)
        self.told: dict[str, list[Told]] = {kind: [] for kind in groups}
        self._started = threading.Event()
        self._left = threading.Event()

    def wait_started(self) -> None:
        """Wait until all have joined their groups; several programs start beside each other."""
        if not self._started.wait(SECONDS_MAX):
            raise TimeoutError("the Java members did not start")

    def hear(self, said: dict[str, Any]) -> None:
        if said["member"] == "all":
            self._started.set()
        elif said["member"] == "left":
            self._left.set()
        else:
            body = base64.b64decode(said["body"])
            told = Told(body, queue_id=said["queueId"], queue_offset=said["queueOffset"])
            self.told[said["member"]].append(told)

    def leave(self, kind: str) -> None:
        """Let a member go in order, and wait until it has gone: until then it consumes."""
        self._left.clear()
        assert self._program is not None
        assert self._program.stdin is not None
        self._program.stdin.write(f"leave {kind}\n")
        self._program.stdin.flush()
        if not self._left.wait(SECONDS_MAX):
            raise TimeoutError(f"the Java member of {kind} did not leave")
