"""Many who send one message at a time: while all is well, and when a killed broker comes back."""

import threading
from pathlib import Path

from bench.load import Report, run_loadgen
from bench.systems import FLOOR, Running, running
from bench.table import CROWD
from bench.work import Measured, Round, warm_up

BACK_CLIENTS = 2_000
BACK_SECONDS_MAX = 60


def do_crowd(name: str, folder: Path, *, seconds: int) -> dict[str, Measured]:
    """All rows of one system; every connection is opened before the first send."""
    if name == FLOOR:
        return {}
    with running(name, folder) as system:
        work = Round(system, seconds)
        warm_up(system)
        for count in CROWD:
            crowd: dict[str, int] = {"conns": count, "window": 1, "size": 128}
            # What many connections need is warmed by many connections.
            run_loadgen("send", system.broker.address, topic="Crowd", secs=2, **crowd)
            work.send(f"crowd {count}", topic="Crowd", secs=seconds, **crowd)
        work.keep("back", come_back(system))
        work.read_back()
    return work.rows


def come_back(system: Running) -> Report:
    """Kill the broker, and start it while clients try to reach it; when each was served, from its start.

    Raises:
        RuntimeError: somebody was not served in time.
    """
    system.broker.kill()
    reports: list[Report] = []

    def clients() -> None:
        reports.append(
            run_loadgen(
                "back", system.broker.address,
                topic="Back", conns=BACK_CLIENTS, secs=BACK_SECONDS_MAX, size=128,
                refused_share_max=0,
            )
        )  # fmt: skip

    trying = threading.Thread(target=clients)
    trying.start()
    system.broker.start()
    trying.join()
    if not reports:
        raise RuntimeError(f"not all of {BACK_CLIENTS} clients were served again")
    return reports[0]
