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

from tests.interop.clients import Result, results_in
from tests.interop.reference import CACHE, HERE

PACKAGE = "rocketmq==0.4.4"
SCENES = ["push", "send_async", "send_batch", "tag_filter", "retry", "order", "delay", "pull"]
FETCH_SECONDS_MAX = RUN_SECONDS_MAX = 240

pytestmark = [
    pytest.mark.timeout(FETCH_SECONDS_MAX + RUN_SECONDS_MAX),
    pytest.mark.skipif(
        platform.machine() != "x86_64", reason="there is a library for x86_64 alone"
    ),
]


@cache
def reports(nameserver: str) -> dict[str, Result]:
    """What the client reports on all scenes; run once."""
    folder = CACHE / "interop-cpp"
    if not (folder / "rocketmq").exists():
        fetch = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            folder,
            PACKAGE,
        ]
        subprocess.run(fetch, timeout=FETCH_SECONDS_MAX, check=True)
    done = subprocess.run(
        [sys.executable, HERE / "cpp_scenes.py", nameserver, *SCENES],
        # It writes its log into the home directory.
        env={**os.environ, "PYTHONPATH": str(folder), "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    return results_in(done.stdout)


@pytest.mark.parametrize("scene", SCENES)
def test_the_cpp_client_finds_what_it_expects(our_cluster, scene):
    result = reports(our_cluster.nameserver.address).get(scene)
    assert result is not None, f"{scene} did not report"
    assert result.passed, result.detail
