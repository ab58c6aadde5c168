"""The official C++ client (`cpp_scenes.py`) works with our nameserver and broker.

It is a library within PyPI's `rocketmq`, which pip brings into the cache folder, apart from the client 5.x of the same name.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache

import pytest

from cometmq import Credentials
from tests.interop.clients import Result, results_in
from tests.interop.reference import CACHE, HERE
from tests.support.accounts import CANARY, account, guarded_cluster

PACKAGE = "rocketmq==0.4.4"
SCENES = ("push", "send_async", "send_batch", "tag_filter", "retry", "order", "delay", "pull")
USER = Credentials("cpp-user", f"{CANARY}-cpp")
FETCH_SECONDS_MAX = RUN_SECONDS_MAX = 240

pytestmark = [
    pytest.mark.timeout(FETCH_SECONDS_MAX + RUN_SECONDS_MAX),
    pytest.mark.skipif(
        platform.machine() != "x86_64", reason="there is a library for x86_64 alone"
    ),
]


@cache
def reports(
    nameserver: str, scenes: tuple[str, ...], credentials: str = ""
) -> dict[str, Result]:
    """What the client reports on scenes; run once."""
    folder = CACHE / "interop-cpp"
    if not (folder / "rocketmq").exists():
        fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*fetch, str(folder), PACKAGE], timeout=FETCH_SECONDS_MAX, check=True)
    done = subprocess.run(
        [sys.executable, HERE / "cpp_scenes.py", nameserver, *scenes],
        # It writes its log into the home directory.
        env={
            **os.environ,
            "PYTHONPATH": str(folder),
            "HOME": str(folder),
            "CREDENTIALS": credentials,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    return results_in(done.stdout)


@pytest.mark.parametrize("scene", SCENES)
def test_the_cpp_client_finds_what_it_expects(our_cluster, scene):
    check(reports(our_cluster.nameserver.address, SCENES).get(scene))


def test_the_cpp_client_signs(tmp_path):
    """Numbers that it writes without quotes, too."""
    rights = {"defaultTopicPerm": "PUB|SUB", "defaultGroupPerm": "PUB|SUB"}
    with guarded_cluster(
        tmp_path,
        account(USER, **rights),
        autoCreateTopicEnable="true",
        autoCreateSubscriptionGroup="true",
    ) as (names, _):
        signed = reports(
            names.address, ("push", "order"), f"{USER.access_key} {USER.secret_key}"
        )
        unsigned = reports(names.address, ("push",))
    check(signed.get("push"))
    check(signed.get("order"))
    assert not unsigned["push"].passed


def check(result: Result | None) -> None:
    assert result is not None, "it did not report"
    assert result.passed, result.detail
