"""The official Go client (`go/main.go`) cannot tell our nameserver and broker from the Java ones.

One run of the program does all scenarios at once; each is one test here, and one that does not report has
failed. The program is built with the versions of `go/go.sum` into the cache folder.
"""

from functools import cache
from pathlib import Path

import pytest

from tests.interop.clients import Result, results_in
from tests.interop.reference import CACHE, HERE
from tests.support.programs import run_program

SCENARIOS = [
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "compressed_body",
    "push_concurrent",
    "tag_filter",
    "sql_filter",
    "broadcast",
    "pull",
    "retry",
    "order",
    "delay",
    "transaction",
]
BUILD_SECONDS_MAX = 240  # the modules are fetched the first time
RUN_SECONDS_MAX = 90
FETCH_TRIES = 3

pytestmark = pytest.mark.timeout(BUILD_SECONDS_MAX * FETCH_TRIES + RUN_SECONDS_MAX)


def build() -> Path:
    """The program; fails when it cannot be built."""
    target = CACHE / "interop-go" / "scenarios"
    target.parent.mkdir(parents=True, exist_ok=True)
    said = ""
    for _ in range(FETCH_TRIES):  # it is the module proxy that may need another try
        command = ("go", "build", "-o", target, ".")
        done = run_program(*command, cwd=HERE / "go", seconds=BUILD_SECONDS_MAX, status=None)
        if done.returncode == 0:
            return target
        said = done.stderr[-2000:]
    raise RuntimeError(f"the Go scenarios cannot be built:\n{said}")


@cache
def reports(nameserver: str) -> dict[str, Result]:
    """What the Go client reports on all scenarios; run once."""
    env = {"NAMESRV": nameserver}
    done = run_program(build(), *SCENARIOS, env=env, seconds=RUN_SECONDS_MAX, status=None)
    return results_in(done.stdout)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_go_client_finds_what_it_expects(our_cluster, scenario):
    result = reports(our_cluster.nameserver.address).get(scenario)
    assert result is not None, f"{scenario} did not report"
    assert result.passed, result.detail
