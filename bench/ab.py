"""Measures an old commit and this tree in turns: old, new, old, new; which is faster, and by how much.

Usage: python -m bench.ab --ref COMMIT [--rounds 6] [--rows broker,clients,"spark store"]

The old commit is checked out beside this one and built in an environment of its own, which stays for the next time.
Both brokers get the same load one after the other, so that a noisy machine is noisy for both. Each round begins with
new ones: two processes of one program differ by some 5 % as long as they live, and tens of GB that are written back
are noise.
Printed are rate, processor time and, where the machine counts them, instructions in user space a message, and
the median of the rounds' ratios with its 95% interval. A row whose interval of rates is wide gets up to three times
the rounds. Rows of clients and Spark compare these, at one broker of this tree; a client's processor time is its own.
Rows that begin with "plain" are of brokers that run as they do where nothing could be compiled.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ab_users import CLIENT_ROWS, SPARK_ROWS, Tree, Users
from bench.load import Report, loadgen, run_java_client, run_loadgen
from bench.measure import processor_seconds
from bench.systems import environment_of
from bench.work import JAVA_CLIENT_THREADS
from tests.interop.reference import CACHE
from tests.support import processes
from tests.support.processes import Program
from tests.support.programs import run_program

HERE = Path(__file__).resolve().parents[1]
SETTINGS = {"autoCreateTopicEnable": "true", "defaultTopicQueueNums": 4, "mappedFileSizeCommitLog": 1 << 30}  # fmt: skip
# What loadgen, or the official Java client, does for each row, and for how long at most; a row of sends ends after so many messages.
FAST_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "send w256 c4": ("send", {"conns": 4, "window": 256, "topic": "A", "messages": 400_000}),
    "send keys w256": ("send", {"conns": 4, "window": 256, "topic": "K", "keys": "true", "messages": 200_000}),
    "send w1 c1": ("send", {"conns": 1, "window": 1, "topic": "A", "messages": 20_000}),
    "send w1 c16": ("send", {"conns": 16, "window": 1, "topic": "A", "messages": 40_000}),
    "send w1 c64": ("send", {"conns": 64, "window": 1, "topic": "A", "messages": 40_000}),
    "send w1 c256": ("send", {"conns": 256, "window": 1, "topic": "A", "messages": 40_000}),
    "send w1 c1000": ("send", {"conns": 1000, "window": 1, "topic": "A", "messages": 40_000}),
    "pull": ("pull", {"conns": 4, "topic": "A"}),
    "pop": ("pop", {"conns": 4, "topic": "A"}),
    **{f"java {mode}": (mode, {"threads": threads}) for mode, threads in JAVA_CLIENT_THREADS.items()},
}  # fmt: skip
# What leaves the fast path of plain sends and hot pulls.
SLOW_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "max offset": ("send", {"conns": 1, "window": 16, "kind": "max", "topic": "A", "messages": 40_000}),
    "heartbeats": ("send", {"conns": 16, "window": 1, "kind": "heartbeat", "topic": "A", "messages": 20_000}),
    "locks": ("send", {"conns": 16, "window": 1, "kind": "lock", "topic": "A", "messages": 20_000}),
    "send delayed": ("send", {"conns": 4, "window": 64, "kind": "delay", "topic": "D", "messages": 30_000}),
    "send timed": ("send", {"conns": 4, "window": 64, "kind": "timer", "topic": "D", "messages": 30_000}),
    "send half": ("send", {"conns": 4, "window": 64, "kind": "half", "topic": "D", "messages": 30_000}),
}  # fmt: skip
ROWS = FAST_ROWS | SLOW_ROWS
PLAIN_ROWS = {
    f"plain {row}": ROWS[row] for row in ("send w256 c4", "send w1 c1", "send w1 c16", "pull")
}
BROKER_ROWS = ROWS | PLAIN_ROWS
# Rows that are asked for by one name.
GROUPS = {
    "broker": [*FAST_ROWS],
    "slow": [*SLOW_ROWS],
    "plain": [*PLAIN_ROWS],
    "clients": [*CLIENT_ROWS],
    "spark": [*SPARK_ROWS],
}
SECONDS = 2
# A Java client is compiled while it runs: for two seconds the same tree against itself gave 0.9 to 1.5.
JAVA_SECONDS = 6
# A row's rounds end early, once its rates' interval is not wider.
NARROW = 0.06
WARM: dict[str, Any] = {"conns": 4, "window": 256, "topic": "A", "secs": 10}
WARM_MESSAGES = 200_000
# What a round of pops consumes, and more.
POPPED_MESSAGES = 800_000


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared.

    Attributes:
        broker: the program that is measured.
        nameserver: where official clients find it.
    """

    broker: Program
    nameserver: str

    def load(self, row: str) -> Report:
        """Run a row once; what the load reports."""
        mode, flags = BROKER_ROWS[row]
        if row.startswith("java "):
            return run_java_client(
                self.nameserver, mode, seconds=JAVA_SECONDS, size=128, topic=row.replace(" ", "-"), **flags
            )  # fmt: skip
        return run_loadgen(mode, self.broker.address, **flags, secs=SECONDS)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run of a row gave.

    Attributes:
        rate: messages a second.
        processor_us: processor time of the broker for each.
        p99_us: of the answers.
        instructions: in user space for each; None where the machine counts none.
    """

    rate: float
    processor_us: float
    p99_us: float
    instructions: float | None


def old_tree(ref: str) -> Path:
    """The old commit beside this one, built.

    Raises:
        RuntimeError: it cannot be checked out or built.
    """
    commit = _output(["git", "rev-parse", "--short=12", f"{ref}^{{commit}}"])
    tree = CACHE / "ab" / commit
    python = tree / ".venv" / "bin" / "python"
    if not (tree / ".built").exists():
        tree.parent.mkdir(parents=True, exist_ok=True)
        if not (tree / ".git").exists():
            _output(["git", "clone", "--quiet", "--shared", "--no-checkout", HERE, tree])
        _output(["git", "-C", tree, "checkout", "--quiet", "--detach", commit])
        venv.create(python.parents[1], with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--no-deps"]
        _output([*pip, "--requirement", tree / "requirements.lock"])
        _output([*pip, "--editable", tree])
        (tree / ".built").touch()
    return python


def _output(command: list[object]) -> str:
    parts = [str(part) for part in command]
    return run_program(*parts, cwd=HERE, seconds=None).stdout.strip()


def start(python: Path | str, folder: Path, stack: ExitStack, rows: list[str]) -> Side:
    """A nameserver and a broker for these rows that this Python runs, with the plain kernel or the compiled one; warm."""
    ours, sys.executable = sys.executable, str(python)  # What `processes` starts programs with.
    try:
        names = stack.enter_context(processes.nameserver(folder / "nameserver"))
        broker = processes.broker(folder / "broker", names.address, settings=SETTINGS)
    finally:
        sys.executable = ours
    broker.own_group = True
    broker.env = environment_of(python)
    if rows[0] in PLAIN_ROWS:
        broker.env["COMETMQ_KERNEL"] = "reference"
    stack.enter_context(broker)
    messages = POPPED_MESSAGES if "pop" in rows else WARM_MESSAGES
    run_loadgen("send", broker.address, **WARM, messages=messages)
    return Side(broker, names.address)


def counts_instructions() -> bool:
    """Whether this machine counts instructions."""
    try:
        done = subprocess.run(
            ["perf", "stat", "-e", "instructions:u", "true"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0 and _instructions(done.stderr) is not None


def _instructions(said: str) -> int | None:
    found = re.search(r"^\s*([\d,.]+)\s+instructions", said, re.MULTILINE)
    return int(re.sub(r"\D", "", found[1])) if found else None


def measure(row: str, side: Side, *, counts: bool) -> Figures:
    """Run a row once.

    The Java client warms itself for three seconds and reports what came after: its rows' processor time and
    instructions are of more messages than are counted, on both sides alike.
    """
    broker = side.broker
    before = processor_seconds(broker.pid)
    instructions = None
    if counts:
        counting = ["perf", "stat", "-e", "instructions:u", "-p", str(broker.pid)]
        with subprocess.Popen(counting, stderr=subprocess.PIPE, text=True) as perf:
            report = side.load(row)
            perf.send_signal(2)  # SIGINT: it says what it counted.
            instructions = _instructions(perf.communicate()[1])
    else:
        report = side.load(row)
    used = processor_seconds(broker.pid) - before
    count = max(report["messages"], 1)
    return Figures(
        report["per_second"], used / count * 1e6, report.get("p99_us", 0),
        None if instructions is None else instructions / count,
    )  # fmt: skip


def is_clear(pairs: list[tuple[Figures, Figures]], rounds: int) -> bool:
    """Whether a row needs no more rounds: it had them all, and its interval is narrow or it had three times as many.

    The width alone decides, never the ratio: otherwise a noisy row would end at a lucky moment.
    """
    if len(pairs) < rounds:
        return False
    low, _, high = interval([new.rate / old.rate for old, new in pairs])
    return high - low <= NARROW or len(pairs) >= 3 * rounds


def line(row: str, pairs: list[tuple[Figures, Figures]]) -> str:
    """A row of the table."""

    def cell(name: str, words: str) -> str:
        old = [getattr(pair[0], name) for pair in pairs]
        new = [getattr(pair[1], name) for pair in pairs]
        if None in old or not all(old):
            return "not counted" if None in old else "-"
        ratios = [after / before for before, after in zip(old, new, strict=True)]
        return f"{statistics.median(old):{words}} -> {statistics.median(new):{words}}, {between(ratios)}"

    cells = (
        cell("rate", ",.0f"), cell("processor_us", ".2f"), cell("p99_us", ",.0f"),
        cell("instructions", ",.0f"),
    )  # fmt: skip
    return f"| {row} | {' | '.join(cells)} |"


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The least, the middle and the greatest value that the median of ratios may have, at 95%; needs 6 rounds.

    Of fewer rounds nothing is known, and the interval is unbounded.
    """
    ordered = sorted(ratios)
    # Of `rounds` fair coins, fewer than `edge` show heads with at most 2.5%: the median is beyond so many ratios.
    rounds, edge, chance = len(ordered), 0, 0.5 ** len(ordered)
    while chance <= 0.025:
        edge += 1
        chance += math.comb(rounds, edge) * 0.5**rounds
    middle = statistics.median(ordered)
    return (
        (ordered[edge - 1], middle, ordered[-edge]) if edge else (-math.inf, middle, math.inf)
    )


def between(ratios: list[float]) -> str:
    """The median of ratios, its interval, and the number of rounds.

    A tree is slower than the other only where the whole interval is below 1.
    """
    low, middle, high = interval(ratios)
    known = f"{low:.2f} to {high:.2f}; " if math.isfinite(low) else ""
    return f"{middle:.2f}x ({known}{len(ratios)} rounds)"


def asked_for(names: str) -> list[str]:
    """The rows of a list of rows and groups.

    Raises:
        ValueError: there is no row or group of that name.
    """
    rows = [row for name in names.split(",") for row in GROUPS.get(name, [name])]
    known = [row for group in GROUPS.values() for row in group]
    if unknown := set(rows) - set(known):
        raise ValueError(f"no row {sorted(unknown)}; there are {', '.join([*GROUPS, *known])}")
    return rows


def compare(old: Path, rows: list[str], rounds: int, *, counts: bool) -> None:
    """Measure a group of rows of the old tree and this one in turns; print each as soon as it needs no more rounds."""
    pairs: dict[str, list[tuple[Figures, Figures]]] = {row: [] for row in rows}
    with ExitStack() as stack:
        users: Users | None = None
        if rows[0] not in BROKER_ROWS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ab-")))
            trees = Tree(old.parents[2], old), Tree(HERE, sys.executable)
            users = Users(trees, folder, stack, rows)
        for number in range(3 * rounds):
            unclear = [row for row in rows if not is_clear(pairs[row], rounds)]
            if not unclear:
                break
            turns = (0, 1) if number % 2 == 0 else (1, 0)
            with ExitStack() as of_round:
                run = of_users(users) if users else of_brokers(old, unclear, turns, of_round, counts=counts)  # fmt: skip
                for row in unclear:
                    both = {which: run(row, which) for which in turns}
                    pairs[row].append((both[0], both[1]))
                    if is_clear(pairs[row], rounds):
                        print(line(row, pairs[row]), flush=True)


Run = Callable[[str, int], Figures]


def of_brokers(
    old: Path, rows: list[str], turns: tuple[int, int], stack: ExitStack, *, counts: bool
) -> Run:
    """Start a broker of the old tree (0) and one of this tree (1), in the order of `turns`; what runs a row at either."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ab-")))
    pythons = old, sys.executable
    sides = {which: start(pythons[which], folder / str(which), stack, rows) for which in turns}
    return lambda row, which: measure(row, sides[which], counts=counts)


def of_users(users: Users) -> Run:
    """What runs a row of programs of users."""

    def run(row: str, which: int) -> Figures:
        report = users.run(row, which)
        return Figures(report["per_second"], report.get("client_us", 0), 0, None)

    return run


def main() -> None:
    """Build, start both, measure, print."""
    parser = argparse.ArgumentParser(prog="bench.ab")
    parser.add_argument("--ref", required=True, help="the old commit")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--rows", default=",".join(GROUPS), help="some, or groups of them")
    given = parser.parse_args()
    try:
        rows = asked_for(given.rows)
    except ValueError as error:
        parser.error(str(error))
    counts = counts_instructions()
    old = old_tree(given.ref)
    loadgen()
    print(
        f"{given.ref} -> this tree, at least {given.rounds} rounds; load average {os.getloadavg()[0]:.1f}"
    )
    if not counts:
        print("This machine counts no instructions (perf stat -e instructions:u).")
    print(
        "| row | messages a second | processor us a message | p99 us | instructions a message |"
    )
    print("| --- | --- | --- | --- | --- |", flush=True)
    for group in GROUPS.values():
        if asked := [row for row in group if row in rows]:
            compare(old, asked, given.rounds, counts=counts)


if __name__ == "__main__":
    main()
