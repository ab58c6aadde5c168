"""The load: `loadgen` (Go, the remoting protocol with little work of its own) and the official Java client."""

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.interop.reference import CACHE, OPENS, compiled, jars, java
from tests.support.programs import run_program

HERE = Path(__file__).resolve().parent
Report = dict[str, Any]
QUEUES = 4
# A Java broker that stumbles refuses what waited 200 ms; the results tell, but a run goes on.
REFUSED_SHARE_MAX = 0.01


@cache
def loadgen() -> Path:
    """The load generator, built where its sources are newer.

    Raises:
        RuntimeError: there is no Go here.
    """
    if shutil.which("go") is None:
        raise RuntimeError("no go here: the bench needs Go 1.21 or later (Debian: golang-go)")
    target = CACHE / "bench" / "loadgen"
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-o", target, "."], cwd=HERE / "loadgen", check=True, timeout=300
    )
    return target


@cache
def client_classes() -> Path:
    """The folder of the compiled ClientBench."""
    folder = CACHE / "bench" / "classes"
    folder.mkdir(parents=True, exist_ok=True)
    source = HERE / "java" / "ClientBench.java"
    return compiled(source, folder)


def run_loadgen(
    mode: str,
    address: str,
    *,
    refused_share_max: float = REFUSED_SHARE_MAX,
    **flags: object,
) -> Report:
    """One run of loadgen; what it reports.

    Raises:
        RuntimeError: it failed, or more was refused than may be.
    """
    options = [f"-{name}={value}" for name, value in flags.items()]
    command = (loadgen(), mode, address, "-queues", QUEUES, *options)
    done = run_program(*command, seconds=600)
    report: Report = json.loads(done.stdout)
    if report["refused"] > refused_share_max * report["messages"]:
        raise RuntimeError(f"loadgen {mode} {options}: {report}: {done.stderr[-1000:]}")
    return report


def run_java_client(
    nameserver: str, mode: str, *, seconds: int, threads: int, size: int, topic: str
) -> Report:
    """One run of the official Java client (5.3.3); what it reports, after three seconds of warming.

    Raises:
        RuntimeError: it could not use the broker, or much was refused.
    """
    home = CACHE / "bench" / "home"
    command = [
        java(),
        *("-Xmx1g", "-XX:-UsePerfData", *OPENS, f"-Duser.home={home}"),
        *("-cp", f"{client_classes()}:{jars()}/*", "ClientBench"),
        *(nameserver, mode, str(seconds), str(threads), str(size), topic),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode != 0 or not last.startswith("{"):
        raise RuntimeError(f"ClientBench {mode}: {last} {done.stderr[-1000:]}")
    report: Report = json.loads(last)
    if report.get("refused", 0) > REFUSED_SHARE_MAX * report["messages"]:
        raise RuntimeError(f"ClientBench {mode}: {report}")
    return report
