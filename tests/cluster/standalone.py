"""A standalone Spark cluster of this machine, from the pip package: a master and workers, on loopback."""

import contextlib
import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyspark

from cometmq.spark.java import java_home
from tests.interop.reference import QUICK_COMPILER
from tests.support.processes import Program, free_port, wait_until

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"


class Standalone:
    """A master and two workers; a job gets one executor of one core from each."""

    def __init__(self, folder: Path, python: Path) -> None:
        """Describe it; `python` runs the tasks."""
        self.env = {
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            # Eight JVMs on two cores, of which none lives for two minutes.
            "SPARK_DAEMON_JAVA_OPTS": QUICK_COMPILER,
            "SPARK_SUBMIT_OPTS": QUICK_COMPILER,
            "PYSPARK_PYTHON": str(python),
        }
        port, self.page = free_port(), free_port()
        self.url = f"spark://{LOOPBACK}:{port}"
        self.master = self._program(
            folder / "master.log", port, "master.Master", "--webui-port", str(self.page)
        )
        self.workers = [self._worker(folder / f"worker-{number}") for number in (1, 2)]

    def _worker(self, folder: Path) -> Program:
        limits = ["--cores", "2", "--memory", "2g", "--webui-port", "0"]
        where = ["--work-dir", str(folder), self.url]
        return self._program(
            folder.with_suffix(".log"), free_port(), "worker.Worker", *limits, *where
        )

    def _program(self, log: Path, port: int, name: str, *arguments: str) -> Program:
        program = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        where = ["--host", LOOPBACK, "--port", str(port)]
        # In our process group: who ends that, as `timeout` does, ends them too.
        return Program([*program, *where, *arguments], log=log, port=port, env=self.env)

    def start(self) -> None:
        """Start all, and wait until the master knows two workers."""
        self.master.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Program.start, self.workers))
        wait_until(lambda: self.alive() == 2, seconds=60, what="two workers at the master")

    def alive(self) -> int:
        """Workers that the master counts as alive."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.page}/json/", timeout=10) as page:
            return int(json.load(page)["aliveworkers"])

    def close(self) -> None:
        """End everything that was started, workers first."""
        for program in (*self.workers, self.master):
            if program.process is not None:
                kill(program)


def kill(program: Program) -> None:
    """End a master or a worker with its executors and their Pythons, as a power cut would."""
    assert program.process is not None
    tree = []
    if program.process.poll() is None:
        # Spark's Python daemons are in process groups of their own; the tree holds them all the same.
        top = psutil.Process(program.pid)
        tree = [top, *top.children(recursive=True)]
    # First all are stopped where they stand, so that none sees another one die.
    for deed in (psutil.Process.suspend, psutil.Process.kill):
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                deed(process)
    program.process.wait(30)
