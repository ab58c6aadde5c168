"""What an operator's commands take from the shell: looks at a cluster of 1,000 groups, and dead letters sent again."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from statistics import median
from typing import Any

from bench.load import run_loadgen
from bench.store_work import QUEUES, ask_all, make_topics
from bench.systems import COMETMQ, JAVA, Running, running
from tests.interop import reference
from tests.support import topics
from tests.support.frames import json_frame

Measured = dict[str, Any]
GROUPS = 1_000
MADE_AT_ONCE = 50
LOOKS = 5
LETTERS = 100_000
RATED_LETTERS, RATE = 20_000, 5_000
UPDATE_CONSUMER_OFFSET, UPDATE_GROUP = 15, 200
SECONDS_MAX = 300


def do_commands(name: str, folder: Path) -> dict[str, Measured]:
    """The rows of one system, on a broker of its own; dead letters only of ours."""
    with running(name, folder / "commands") as system:
        make_topics(system, "Orders", 1)
        make_groups(system)
        rows = {"looks": looks(system, folder)}
        if name == COMETMQ:
            rows["replay"] = replay(system, "fast", LETTERS)
            rows["replay with a rate"] = replay(
                system, "slow", RATED_LETTERS, "--rate", str(RATE)
            )
    return rows


def make_groups(system: Running) -> None:
    """Make 1,000 groups, each of which has consumed nothing of a topic with messages."""
    flags = {"conns": 1, "window": 64, "size": 128, "queues": QUEUES}
    run_loadgen("send", system.broker.address, topic="Orders", secs=60, messages=800, **flags)
    names = [f"group-{number}" for number in range(GROUPS)]
    place = {"topic": "Orders", "queueId": "0", "commitOffset": "0"}
    with socket.create_connection(("127.0.0.1", system.broker.port), timeout=60) as peer:
        for start in range(0, GROUPS, MADE_AT_ONCE):
            some = names[start : start + MADE_AT_ONCE]
            bodies = [json.dumps({"groupName": name}).encode() for name in some]
            # A Java broker refuses offsets of a group that is not there yet.
            ask_all(peer, [json_frame(UPDATE_GROUP, {}, body) for body in bodies])
            places = [{**place, "consumerGroup": name} for name in some]
            ask_all(peer, [json_frame(UPDATE_CONSUMER_OFFSET, each) for each in places])


def looks(system: Running, folder: Path) -> Measured:
    """Milliseconds from the shell's fork to the end of a list, the median of a few after a first one."""

    def cluster() -> object:
        if system.name == JAVA:
            return reference.mqadmin(folder, system.nameserver, "clusterList")
        return cometmq(system, "cluster", "list")

    def groups() -> object:
        if system.name == JAVA:
            return reference.mqadmin(
                folder, system.nameserver, "consumerProgress", seconds=SECONDS_MAX
            )
        return cometmq(system, "group", "list")

    return {"cluster_ms": timed(cluster), "groups_ms": timed(groups)}


def timed(look: Callable[[], object]) -> float:
    """The median of its times, in ms."""
    look()
    times = []
    for _ in range(LOOKS):
        began = time.monotonic()
        look()
        times.append((time.monotonic() - began) * 1_000)
    return median(times)


def replay(system: Running, group: str, count: int, *options: str) -> Measured:
    """Letters a second: from the shell's fork to the end; with a rate, from the first to the last that was stored."""
    letters, target = f"%DLQ%{group}", f"Back-{group}"
    make_topics(system, letters, 1)
    make_topics(system, target, 1)
    flags = {"conns": 2, "window": 256, "size": 128, "queues": QUEUES}
    run_loadgen("send", system.broker.address, topic=letters, secs=60, messages=count, **flags)
    began = time.monotonic()
    said = json.loads(
        cometmq(system, "dlq", "replay", group, "--to-topic", target, "--json", *options)
    )
    seconds = time.monotonic() - began
    if said["sent"] != {target: count}:
        raise RuntimeError(f"{count} dead letters were to be sent: {said}")
    stored = stored_ms(system, target)
    if len(stored) != count:
        raise RuntimeError(f"{count} dead letters were sent, {len(stored)} are there")
    if options:
        seconds = (stored[-1] - stored[0]) / 1_000
    return {"per_second": count / seconds, "of_rate": count / seconds / RATE}


def stored_ms(system: Running, topic: str) -> list[int]:
    """When each message of a topic was stored, in order."""
    return sorted(each.stored_ms for each in topics.read(system.nameserver, topic))


def cometmq(system: Running, *arguments: str, statuses: Collection[int] = (0,)) -> bytes:
    """Run a command to its end, as it is installed: with its bytecode; it must end with one of the statuses."""
    env = {**os.environ, "NAMESRV_ADDR": system.nameserver, "PYTHONDONTWRITEBYTECODE": ""}
    command = [str(Path(sys.executable).with_name("cometmq")), *arguments]
    done = subprocess.run(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode not in statuses:
        raise RuntimeError(f"cometmq {' '.join(arguments)} failed: {done.stderr.decode()}")
    return done.stdout
