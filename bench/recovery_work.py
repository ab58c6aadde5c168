"""A killed broker's way back, and the checking of its store: 4 GB of messages of 1 KiB."""

import json
import sys
import time
from pathlib import Path

from bench.systems import COMETMQ, FLOOR, running
from bench.work import Measured, Round
from tests.support.programs import run_program

BODY_SIZE = 1024
MESSAGES = 3_500_000  # of about 1.2 KB in the log
FILL_SECONDS_MAX = 400
VERIFY_SECONDS_MAX = 300


def do_recovery(name: str, folder: Path) -> dict[str, Measured]:
    """Fill a broker, kill it, start it on what it left, read everything; then verify the store."""
    if name == FLOOR:
        return {}
    with running(name, folder) as system:
        work = Round(system, FILL_SECONDS_MAX)
        work.send(
            "fill",
            topic="Kept",
            conns=4,
            window=256,
            size=BODY_SIZE,
            secs=FILL_SECONDS_MAX,
            messages=MESSAGES,
        )
        system.broker.kill()
        from_here = time.monotonic()
        system.broker.start()
        seconds = time.monotonic() - from_here
        work.rows["recovery"] = {"seconds": seconds}
        print(f"  {name:8} recovery {seconds:.2f} s", flush=True)
        work.read_back()
    if name == COMETMQ:
        work.rows["verify"] = verified(folder)
    return work.rows


def verified(folder: Path) -> Measured:
    """What `cometmq store verify` takes for the killed store; it must find nothing wrong.

    Raises:
        AssertionError: it found something.
    """
    store = folder / "broker" / "store"
    from_here = time.monotonic()
    verify = (sys.executable, "-m", "cometmq.cli", "store", "verify", "--json", store)
    done = run_program(*verify, seconds=VERIFY_SECONDS_MAX)
    seconds = time.monotonic() - from_here
    found = json.loads(done.stdout)
    per_second = (found["log_end"] - found["log_start"]) / seconds
    print(f"  verify   {seconds:.2f} s, {per_second / 1e6:.0f} MB/s", flush=True)
    return {"seconds": seconds, "bytes_per_second": per_second}
