"""The load: `loadgen` and `grpcload` (Go, either protocol with little work of their own) and the official Java client."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.interop.reference import CACHE, OPENS, compiled, jars, java
from tests.support.programs import run_program

HERE = Path(__file__).resolve().parent
Report = dict[str, Any]
# A Java broker that stumbles refuses what waited 200 ms; the results tell, but a run goes on.
REFUSED_SHARE_MAX = 0.01


def loadgen() -> Path:
    """The load generator of the remoting protocol, built where its sources are newer."""
    return _built("loadgen")


def grpcload() -> Path:
    """That of gRPC."""
    return _built("grpcload")


@cache
def _built(name: str) -> Path:
    if shutil.which("go") is None:
        raise RuntimeError("no go here: the bench needs Go 1.21 or later (Debian: golang-go)")
    target = CACHE / "bench" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-o", target, "."], cwd=HERE / name, check=True, timeout=300)
    return target


@contextmanager
def holding(command: Sequence[str | Path]) -> Iterator[None]:
    """A load generator holds its connections, which it has opened when it says `ready`; it ends in the end."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "ready\n", f"{command} has not all connections"
        time.sleep(1)
        yield
        held.communicate(timeout=60)


@cache
def client_classes() -> Path:
    """The folder of the compiled ClientBench."""
    return compiled(HERE / "java" / "ClientBench.java")


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
    return _report(loadgen(), mode, address, refused_share_max, flags)


def run_grpcload(mode: str, address: str, **flags: object) -> Report:
    """One run of grpcload; what it reports. Raises RuntimeError as `run_loadgen`."""
    return _report(grpcload(), mode, address, REFUSED_SHARE_MAX, flags)


def _report(
    program: Path,
    mode: str,
    address: str,
    refused_share_max: float,
    flags: Mapping[str, object],
) -> Report:
    options = [f"-{name}={value}" for name, value in flags.items()]
    command = (program, mode, address, *options)
    done = run_program(*command, seconds=600)
    report: Report = json.loads(done.stdout)
    if report["refused"] > refused_share_max * report["messages"]:
        raise RuntimeError(f"{program.name} {mode} {options}: {report}: {done.stderr[-1000:]}")
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
