"""The example of the simple consumer does what its lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cometmq.embedded import Embedded


def test_heavy_parcels_are_done_and_the_heaviest_comes_again():
    with Embedded() as cluster:
        done = subprocess.run(
            [sys.executable, "-m", "examples.pop", cluster.nameserver],
            capture_output=True, text=True, check=False, timeout=60,
            cwd=Path(__file__).resolve().parents[2],
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "30 kg: done, received 2 times",
        "30 kg: in a second",
        "7 kg: done, received 1 times",
    ]
