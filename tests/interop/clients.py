"""Runs the scenarios on the official Java clients (`java/run.sh`) and reads what they report.

The scenarios are the customers: they stand here as their authors wrote them, but for two lines: one bears with a
race of the client itself, one ended a race of their own. They write beside themselves, so they run from a copy
in the cache folder.
"""

import fcntl
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.reference import CACHE, HERE, QUICK_COMPILER, jars
from tests.support.programs import run_program

# What the scenarios expect of a broker.
BROKER_SETTINGS: dict[str, object] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "defaultTopicQueueNums": 8,
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "transactionTimeOut": 2000,
    "transactionCheckInterval": 3000,
    "recallMessageEnable": "true",
}
RESULT_LINE = re.compile(r"^(?P<verdict>ok|not ok) (?P<name>\w+) ?(?P<detail>.*)$")
SECONDS_MAX = 240  # run.sh ends the clients itself after 95 s; before that may be javac


@dataclass(frozen=True, slots=True)
class Result:
    """What one scenario reported."""

    passed: bool
    detail: str


def scenario_folder(client: str) -> Path:
    """A copy of the scenarios where they may write, with the jars of a client: run.sh fetches them where there are none."""
    source, target = HERE / "java", CACHE / "interop-java"
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in (path for path in source.rglob("*") if path.is_file()):
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists() or copy.read_bytes() != path.read_bytes():
                shutil.copyfile(path, copy)
        if not (library := target / f"lib-{client}").exists():
            library.symlink_to(jars(client))
    return target


def run_scenarios(
    nameserver: str, scenarios: Sequence[str], *, client: str = "5.3.3", header: str = "JSON"
) -> dict[str, Result]:
    """Run `scenarios` against the cluster of `nameserver`; the result of each, by name.

    Raises:
        RuntimeError: the clients did not report on any scenario.
    """
    folder = scenario_folder(client)
    env = {"NAMESRV": nameserver, "CLIENT": client, "SERIALIZE": header, "JDK_JAVA_OPTIONS": QUICK_COMPILER}  # fmt: skip
    done = run_program(
        "bash", folder / "run.sh", *scenarios, env=env, seconds=SECONDS_MAX, status=None
    )
    if results := results_in(done.stdout):
        return results
    raise RuntimeError(f"no scenario reported:\n{(done.stdout + done.stderr)[-2000:]}")


def results_in(output: str) -> dict[str, Result]:
    """The results in what run.sh printed; a scenario that left itself out has not passed."""
    found = (RESULT_LINE.match(line) for line in output.splitlines())
    return {
        match["name"]: Result(match["verdict"] == "ok", match["detail"])
        for match in found
        if match
    }
