"""The rows of `bench.ab` that are of programs of users: our client's, and Spark's, of either tree, at one broker of this one.

A client is a process for each run, of the tree's own `bench/python_clients.py`, for its names changed. Spark is a session of
each tree that lives all the time (`bench/ab_spark.py`), and is warmed by its first work, which counts for nobody.
"""

import json
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.load import Report, run_loadgen
from bench.systems import environment_of
from tests.support import processes
from tests.support.big_store import make_big_store

HERE = Path(__file__).resolve().parents[1]
# The works of bench/python_clients.py by row.
CLIENT_ROWS = {
    f"client {work}": work for work in ("alone", "in-flight", "gathered", "blocking", "push")
}
# Those of bench/ab_spark.py.
SPARK_ROWS = {f"spark {work}": work for work in ("source", "sink", "store", "window")}
CLIENT_SECONDS = 2
CONSUMED = 500_000
SPARK_MESSAGES = 200_000
BODY_SIZE = 1024
# What one pull may give Spark, as in bench/spark_work.py.
SETTINGS = {
    "defaultTopicQueueNums": 4,
    "mappedFileSizeCommitLog": 1 << 30,
    "maxTransferCountOnMessageInMemory": 1024,
    "maxTransferBytesOnMessageInMemory": 2 << 20,
}


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit that was built.

    Attributes:
        root: where it lies.
        python: of its environment.
    """

    root: Path
    python: Path | str


class Users:
    """Programs of two trees, old and new, at one broker.

    Args:
        trees: both.
        folder: where files go.
        stack: ends everything.
        rows: those that will be asked for.
    """

    def __init__(
        self, trees: tuple[Tree, Tree], folder: Path, stack: ExitStack, rows: list[str]
    ) -> None:
        self._trees = trees
        self._names = stack.enter_context(processes.nameserver(folder / "nameserver"))
        broker = processes.broker(folder / "broker", self._names.address, settings=SETTINGS)
        self._broker = stack.enter_context(broker)
        self._sessions: list[subprocess.Popen[str]] = []
        if set(rows) & set(SPARK_ROWS):
            self._start_sessions(folder, stack)
            for which in (0, 1):
                for row in SPARK_ROWS:
                    self.run(row, which)

    def _start_sessions(self, folder: Path, stack: ExitStack) -> None:
        store = folder / "store"
        make_big_store(store, SPARK_MESSAGES, body_size=BODY_SIZE, filling=b"x")
        flags: dict[str, Any] = {"conns": 4, "window": 256, "topic": "Rows", "size": BODY_SIZE}
        run_loadgen("send", self._broker.address, **flags, messages=SPARK_MESSAGES, secs=60)
        script = HERE / "bench" / "ab_spark.py"
        for tree in self._trees:
            given = [self._names.address, str(store), str(SPARK_MESSAGES)]
            log = stack.enter_context((folder / f"spark{len(self._sessions)}.log").open("w"))
            session = subprocess.Popen(
                [str(tree.python), str(script), *given], cwd=folder, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment_of(tree.python),
            )  # fmt: skip
            stack.callback(session.communicate)  # Without another line it ends.
            self._sessions.append(session)

    def run(self, row: str, which: int) -> Report:
        """Run a row once, by the old tree (0) or the new one (1).

        Raises:
            RuntimeError: the program failed.
        """
        if row in SPARK_ROWS:
            return self._spark(SPARK_ROWS[row], self._sessions[which])
        return self._client(CLIENT_ROWS[row], self._trees[which])

    def _spark(self, work: str, session: subprocess.Popen[str]) -> Report:
        assert session.stdin is not None
        assert session.stdout is not None
        session.stdin.write(f"{work}\n")
        session.stdin.flush()
        answer = session.stdout.readline()
        if not answer:
            raise RuntimeError(f"the Spark session of {session.args!r} ended in {work!r}")
        report: Report = json.loads(answer)
        return report

    def _client(self, work: str, tree: Tree) -> Report:
        amount = CLIENT_SECONDS
        if work == "push":  # It goes on where the one before it ended.
            flags: dict[str, Any] = {"conns": 4, "window": 256, "topic": "Consumed"}
            run_loadgen(
                "send", self._broker.address, **flags, size=128, messages=CONSUMED, secs=30
            )
            amount = CONSUMED
        script = tree.root / "bench" / "python_clients.py"
        done = subprocess.run(
            [str(tree.python), str(script), "cometmq", work, self._names.address, str(amount)],
            capture_output=True, text=True, timeout=300, check=False, env=environment_of(tree.python),
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{tree.root} {work}: {done.stderr[-2000:]}")
        report: Report = json.loads(done.stdout)
        report.setdefault("per_second", report["messages"] / CLIENT_SECONDS)
        return report
