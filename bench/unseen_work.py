"""What rows of sends and hot pulls do not show: filters, transactions, look-ups, refused messages, heartbeats, groups that wait."""

from pathlib import Path
from typing import Any

from bench.load import run_loadgen
from bench.systems import FLOOR, running
from bench.work import Measured, Round, fill, warm_up

# Of 4 queues together; a search by time looks at 25,000 each.
LOOKED_UP = 100_000
FILTERED = 400_000
# One message of so many has a tag, and the same value of the property `a`.
SHARES = (10, 100, 1_000)
JOINING = 1_000
NEW_TOPICS = 1_500
GROUPS = 50
# What each row asks of loadgen's `send`.
LOOK_UPS = {
    "key": ("key", 4, 1),
    "no key": ("nokey", 4, 1),
    "view": ("view", 4, 1),
    "time": ("time", 4, 1),
    "refused": ("refuse", 4, 16),
    "heartbeats": ("heartbeat", 16, 1),
    "joining": ("heartbeat", JOINING, 1),
    "locks": ("lock", 16, 1),
    "delayed": ("delay", 4, 64),
    "timed": ("timer", 4, 64),
}


def do_unseen(name: str, folder: Path, *, seconds: int) -> dict[str, Measured]:
    """All rows of one system, on a broker of its own."""
    if name == FLOOR:
        return {}
    with running(name, folder, enablePropertyFilter="true") as system:  # SQL92.
        work = Round(system, seconds)
        warm_up(system)
        _filters(work)
        fill(work, "Looked", LOOKED_UP, keys=True)
        for row, (kind, conns, window) in LOOK_UPS.items():
            # What is delayed, timed or refused goes to other topics: nothing is counted back there.
            _row(work, row, "send", topic="Looked", kind=kind, conns=conns, window=window)
        _row(work, "transactions", "transact", topic="Ended", conns=16, window=1)
        _row(work, "many transactions", "transact", topic="Ended", conns=4, window=64)
        work.send(
            "new topics", topic="New", topics=NEW_TOPICS, conns=8, window=1, messages=NEW_TOPICS, secs=60
        )  # fmt: skip
        del work.acknowledged["New"]  # They are T0, T1 and so on.
        _row(work, "fan", "fan", topic="Fan", conns=GROUPS, rate=500)
        work.read_back()
    return work.rows


def _filters(work: Round) -> None:
    for share in SHARES:
        topic = f"Tagged{share}"
        fill(work, topic, FILTERED, tags=share)
        for kind, expression in (("TAG", "t1"), ("SQL92", "a = 1")):
            _row(
                work, f"{kind} {share}", "pull", topic=topic, conns=4, filter=f"{kind}:{expression}"
            )  # fmt: skip


def _row(work: Round, row: str, mode: str, **flags: Any) -> None:
    address = work.system.broker.address
    run_loadgen(mode, address, **flags, secs=min(2, work.seconds))  # Java compiles it.
    with work.measured(row) as measured:
        measured.update(run_loadgen(mode, address, **flags, secs=work.seconds))
