"""The official Java client at the end of a pipe: it sends what a test gives it, and tells what it reads."""

import base64
import fcntl
import json
import subprocess
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.interop import reference
from tests.interop.reference import CACHE, OPENS, QUICK_START, VERSION, jars, java
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
    folder = compiled()
    options = ("-Xmx256m", *QUICK_START, "-XX:-UsePerfData", *OPENS, f"-Duser.home={folder}")
    program = (java(), *options, "-cp", f"{folder}:{jars()}/*", "Peer", *arguments)
    done = run_program(*program, stdin=stdin, seconds=seconds)
    return [
        json.loads(line.removeprefix(MARK))
        for line in done.stdout.splitlines()
        if line.startswith(MARK)
    ]


class Members:
    """Java members of groups, one of each kind ("push", "ordered", "pop"), in one process.

    Attributes:
        told: what each was given, by kind.
    """

    def __init__(
        self, nameserver: str, groups: Mapping[str, tuple[str, str]], *, version: str = VERSION
    ) -> None:
        """Begin nothing yet; `groups` has topic and group of each kind, `version` is the client's."""
        folder = compiled(version)
        members = [f"{kind}:{topic}:{group}" for kind, (topic, group) in groups.items()]
        # Times of a test: a group is shared out, and its locks are renewed, each second.
        waits = [
            f"-Drocketmq.client.rebalance.{each}=1000"
            for each in ("waitInterval", "lockInterval")
        ]
        self._command = [
            java(),
            *("-Xmx256m", *QUICK_START, "-XX:-UsePerfData", *OPENS, *waits),
            f"-Duser.home={folder}",
            *("-cp", f"{folder}:{jars(version)}/*", "Peer", "members", nameserver, *members),
        ]
        self.told: dict[str, list[Told]] = {kind: [] for kind in groups}
        self._program: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._started = threading.Event()
        self._left = threading.Event()

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

    def wait_started(self) -> None:
        """Wait until all have joined their groups; several programs start beside each other."""
        if not self._started.wait(SECONDS_MAX):
            raise TimeoutError("the Java members did not start")

    def _read(self) -> None:
        assert self._program is not None
        assert self._program.stdout is not None
        for line in self._program.stdout:
            if not line.startswith(MARK):
                continue
            said = json.loads(line.removeprefix(MARK))
            if said["member"] == "all":
                self._started.set()
                continue
            if said["member"] == "left":
                self._left.set()
                continue
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

    def __exit__(self, *_: object) -> None:
        assert self._program is not None
        self._program.kill()
        self._program.communicate()


def compiled(version: str = VERSION) -> Path:
    """The folder with the compiled class; compiled where it is older than its source."""
    folder = CACHE / "peer" / version
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = folder / "Peer.class"
        if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
            reference.compiled(SOURCE, folder, version)
    return folder
