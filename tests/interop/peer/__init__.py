"""The official Java client at the end of a pipe: it sends what a test gives it, and tells what it reads."""

from __future__ import annotations

import base64
import fcntl
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.reference import CACHE, OPENS, VERSION, jars, java

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
        RuntimeError: it failed; the message holds what it said.
    """
    folder = compiled()
    done = subprocess.run(
        [
            java(),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", *OPENS),
            f"-Duser.home={folder}",
            *("-cp", f"{folder}:{jars()}/*", "Peer", *arguments),
        ],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"Peer {arguments} ended with {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return [
        json.loads(line.removeprefix(MARK))
        for line in done.stdout.splitlines()
        if line.startswith(MARK)
    ]


def compiled() -> Path:
    """The folder with the compiled class; compiled where it is older than its source."""
    folder = CACHE / "peer" / VERSION
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = folder / "Peer.class"
        if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
            javac = [java("javac"), "-nowarn", "-d", folder, "-cp", f"{jars()}/*", SOURCE]
            subprocess.run(
                [str(part) for part in javac], check=True, capture_output=True, timeout=120
            )
    return folder
