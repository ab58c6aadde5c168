"""Counts instructions in user space for each message, of a broker or of our client, where the processor counts none for us.

Usage: python -m bench.instructions [--rows "lone,crowd 64"] [--functions 20] [--python OTHER/.venv/bin/python]

A broker runs under valgrind's callgrind, which counts while the load of a row runs and not before. It says nothing of
time, caches and the operating system, and the same tree gives the same number to one in a hundred, however busy the machine
is. The timers of the loop are told apart: they come fifty times as often for each message where all else is as slow.
Of our client, which does the works of `bench.python_clients`, two runs are counted from their start: what twice as many
messages take more than so many is what so many take.
"""

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.clients import SCRIPT
from bench.load import run_loadgen
from bench.systems import COMETMQ, SETTINGS, environment_of, running
from cometmq import AsyncProducer, Message
from tests.support import processes
from tests.support.processes import Program
from tests.support.programs import run_program

_UNDER_CALLGRIND = "valgrind", "--tool=callgrind", "--instr-atstart=no"
# That all is slow there is no reason to refuse anybody.
_PATIENT_MS = 600_000
_PATIENT = {
    "waitTimeMillsInSendQueue": _PATIENT_MS,
    "osPageCacheBusyTimeOutMills": _PATIENT_MS,
}
# Filters by SQL92; and the level that rows use, the third, is due when all of them are over.
_SPECIAL = {"enablePropertyFilter": "true", "messageDelayLevel": "1s 5s 24h"}
# How many requests a turn handles depends on the time they take, and with it what each costs.
_TURNS_OF_ANY_TIME = (
    "import runpy; from cometmq.net import turn; "
    "turn.BUDGET_SECONDS = turn.OVERTIME_SECONDS = turn.SINGLE_SECONDS = turn.SINGLE_SECONDS_OF_MANY = 1e4; "
    "runpy.run_module('cometmq.broker', run_name='__main__')"
)
_SECONDS_MAX = _PATIENT_MS // 1000  # Of a row that ends by its messages.
_BATCH, _BATCHES = 32, 4  # Messages of a batch, and batches at a time.
_LOG_FILE_SIZE = 256 << 20  # All rows have room in one; bytes.
# A line of callgrind_annotate: a number, its share, the source, the function, the library.
_ANNOTATED = re.compile(r"^ *([\d,]+) +\( *[\d.]+%\) +\S+?:([^ '\[\n]+)", re.MULTILINE)
# What the loop's timers do: uvloop runs them all from here.
_TIMERS = "uv__run_timers"


@dataclass(frozen=True, slots=True)
class Load:
    """What is counted for a row.

    Attributes:
        mode: of loadgen; or `batch`, by our client.
        flags: how.
        warm: how else before it is counted; empty: not at all.
        filled: sends of messages that are there for it to read; empty: none.
    """

    mode: str
    flags: dict[str, Any]
    warm: dict[str, Any] = field(default_factory=dict)
    filled: dict[str, Any] = field(default_factory=dict)


def _sends(conns: int, window: int, messages: int, **special: Any) -> Load:
    flags = {"topic": "Sent", "conns": conns, "window": window, "secs": _SECONDS_MAX, **special}
    return Load("send", {**flags, "messages": messages}, {"messages": messages // 3})


def _pops(topic: str, wanted: str = "TAG:*", **filled: Any) -> Load:
    flags = {"topic": topic, "conns": 4, "secs": _SECONDS_MAX, "filter": wanted}
    return Load("pop", flags, filled=filled)


def _look_ups(kind: str, conns: int, window: int, messages: int) -> Load:
    """Requests of a kind about messages that are there; of each kind they are in a topic of their own."""
    made = _sends(conns, window, messages, kind=kind, topic=f"Looked-{kind}")
    return replace(made, filled={"messages": 8_000, "keys": True})


ROWS = {
    "lone": _sends(1, 1, 6_000),
    "crowd 64": _sends(64, 1, 12_800),
    "w256": _sends(4, 256, 51_200),
    "w256 1 KiB": _sends(4, 256, 51_200, topic="Large", size=1024),
    "w256 keys": _sends(4, 256, 25_600, topic="Keyed", keys=True),
    "pull": Load(
        "pull", {"topic": "Pulled", "conns": 4, "secs": 6}, {"secs": 1}, {"messages": 40_000}
    ),
    "pop": _pops("Popped", messages=12_800),
    "pop TAG 10": _pops("PoppedByTag", "TAG:t1", messages=64_000, tags=10),
    "pop SQL92 10": _pops("PoppedBySql", "SQL92:a = 1", messages=64_000, tags=10),
    "batch": Load("batch", {"rounds": 100}, {"rounds": 40}),
    "transactions": replace(_sends(4, 64, 6_400, topic="Ended"), mode="transact"),
    "refused": _look_ups("refuse", 4, 16, 6_400),
    "key": _look_ups("key", 4, 1, 3_200),
    "no key": _look_ups("nokey", 4, 1, 3_200),
    "view": _look_ups("view", 4, 1, 6_400),
    "time": _look_ups("time", 4, 1, 3_200),
    "heartbeats": _sends(16, 1, 6_400, kind="heartbeat"),
    "locks": _sends(16, 1, 6_400, kind="lock"),
    "delayed": _sends(4, 64, 12_800, kind="delay", topic="Delayed"),
    "max offset": _sends(1, 16, 9_600, kind="max"),
}


# Of our client: a work of `bench.python_clients`, and how many messages.
CLIENT_ROWS = {
    "client: 256 gathered": ("counted", 6_400),
    "client: push of 32": ("push", 20_000),
}
_CONSUMED = 100_000  # Messages of the topic that is pushed.


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted of a row.

    Attributes:
        path: callgrind's file.
        messages: how many there were.
    """

    path: Path
    messages: int

    @property
    def a_message(self) -> float:
        """Instructions for each."""
        found = re.search(r"^totals: (\d+)", self.path.read_text(), re.MULTILINE)
        assert found is not None, self.path
        return int(found[1]) / self.messages

    @property
    def of_timers(self) -> float:
        """How many of them are what the loop's timers did meanwhile."""
        took = [each for name, each in self._annotated("--inclusive=yes") if name == _TIMERS]
        return max(took, default=0) / self.messages

    def functions(self, count: int) -> list[str]:
        """The functions of C that took most, each with what was compiled into it: instructions a message, and name."""
        took: Counter[str] = Counter()
        for name, number in self._annotated():
            took[name] += number
        return [
            f"{each / self.messages:10,.0f}  {name}" for name, each in took.most_common(count)
        ]

    def _annotated(self, *options: str) -> list[tuple[str, int]]:
        command = ["callgrind_annotate", "--threshold=100", *options, str(self.path)]
        said = run_program(*command, seconds=None).stdout
        return [
            (name, int(number.replace(",", ""))) for number, name in _ANNOTATED.findall(said)
        ]


class CallgrindMissing(RuntimeError):
    """Valgrind is not installed."""


class Counted:
    """A broker that runs under callgrind."""

    def __init__(self, broker: Program, nameserver: str, folder: Path) -> None:
        """It runs, and writes what it counted into the folder."""
        self._broker = broker
        self._nameserver = nameserver
        self._folder = folder
        self._files = 0

    def count(self, row: str) -> Count:
        """Run a row.

        Raises:
            RuntimeError: the load failed, or callgrind does not listen.
        """
        load = ROWS[row]
        if load.filled:
            filling = {"topic": load.flags["topic"], **load.filled}
            self._run(_sends(4, 64, **filling))
        if load.warm:
            self._run(load, **load.warm)
        self._control("-i", "on")
        messages = self._run(load)
        self._control("-i", "off")
        self._control("-d")  # It writes what was counted, and begins again with nothing.
        self._files += 1
        return Count(self._folder / f"out.{self._files}", messages)

    def _run(self, load: Load, **special: Any) -> int:
        flags = {**load.flags, **special}
        if load.mode == "batch":
            return asyncio.run(_send_batches(self._nameserver, **flags))
        messages: int = run_loadgen(load.mode, self._broker.address, **flags)["messages"]
        return messages

    def _control(self, *said: str) -> None:
        command = ["callgrind_control", *said, str(self._broker.pid)]
        run_program(*command, seconds=None)


async def _send_batches(nameserver: str, *, rounds: int) -> int:
    """Send batches, some at a time; how many messages there were."""
    batch = [Message("Batches", b"x" * 128)] * _BATCH
    async with AsyncProducer(nameserver) as producer:
        for _ in range(rounds):
            some = (producer.send_batch(batch, timeout_ms=_PATIENT_MS) for _ in range(_BATCHES))
            await asyncio.gather(*some)
    return rounds * _BATCH * _BATCHES


def require_callgrind() -> None:
    """Look for valgrind.

    Raises:
        CallgrindMissing: it is not installed.
    """
    if shutil.which("callgrind_control") is None:
        raise CallgrindMissing(
            "no valgrind here, whose callgrind counts instructions (Debian: apt-get install valgrind)"
        )


@contextmanager
def counted_broker(folder: Path, python: str = sys.executable) -> Iterator[Counted]:
    """A nameserver, and a broker under callgrind that this Python runs.

    Raises:
        CallgrindMissing: valgrind is not installed.
    """
    require_callgrind()
    settings = {**SETTINGS, **_PATIENT, **_SPECIAL, "mappedFileSizeCommitLog": _LOG_FILE_SIZE}
    with processes.nameserver(folder / "nameserver") as names:
        broker = processes.broker(folder / "broker", names.address, settings=settings)
        broker.command = [
            *_UNDER_CALLGRIND, f"--callgrind-out-file={folder / 'out'}", "--",
            python, "-c", _TURNS_OF_ANY_TIME, *broker.command[broker.command.index("-m") + 2 :],
        ]  # fmt: skip
        broker.env = environment_of(python)
        with broker:
            yield Counted(broker, names.address, folder)


def count_client(row: str, folder: Path, python: str = sys.executable) -> float:
    """Instructions of our client's process for each message.

    Raises:
        CallgrindMissing: valgrind is not installed.
    """
    require_callgrind()
    work, count = CLIENT_ROWS[row]
    took = []
    folder.mkdir()
    with running(COMETMQ, folder) as system:
        if work == "push":
            run_loadgen(
                "send",
                system.broker.address,
                **_sends(4, 64, _CONSUMED, topic="Consumed").flags,
            )
        for messages in (count, 2 * count):
            out = folder / f"client.{messages}"
            command = [
                "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", python, str(SCRIPT),
                "cometmq", work, system.nameserver, str(messages),
            ]  # fmt: skip
            subprocess.run(command, check=True, capture_output=True, env=environment_of(python))
            took.append(Count(out, 1).a_message)
    return (took[1] - took[0]) / count


def count_columns(folder: Path) -> dict[str, dict[str, Any]]:
    """What section `columns` shows: instructions of each row, of a broker of its own."""
    rows = {}
    with counted_broker(folder) as counted:
        for row in ROWS:
            a_message = counted.count(row).a_message
            rows[f"counted {row}"] = {"instructions": a_message}
            print(f"  cometmq  {row:16} {a_message:>12,.0f} instructions/msg", flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Start, count, print."""
    parser = argparse.ArgumentParser(prog="bench.instructions")
    parser.add_argument(
        "--rows", default=",".join([*ROWS, *CLIENT_ROWS]), help="some of them, with commas"
    )
    parser.add_argument("--functions", type=int, default=0, help="show so many of each row")
    parser.add_argument("--python", default=sys.executable, help="of another tree, built")
    given = parser.parse_args(arguments)
    rows = given.rows.split(",")
    if unknown := set(rows) - set(ROWS) - set(CLIENT_ROWS):
        parser.error(f"no row {sorted(unknown)}; there are {sorted([*ROWS, *CLIENT_ROWS])}")
    print("| row | instructions in user space a message | of them timers' |")
    print("| --- | ---: | ---: |")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="instructions-") as folder,
            counted_broker(Path(folder), given.python) as counted,
        ):
            for row in rows:
                if row in CLIENT_ROWS:
                    a_message = count_client(row, Path(folder) / row, given.python)
                    print(f"| {row} | {a_message:,.0f} | - |", flush=True)
                    continue
                count = counted.count(row)
                print(f"| {row} | {count.a_message:,.0f} | {count.of_timers:,.0f} |")
                print("".join(f"{line}\n" for line in count.functions(given.functions)), end="")
                sys.stdout.flush()
    except CallgrindMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
