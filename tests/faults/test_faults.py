"""Faults of processes, disks and networks, round by round, under a group with four producers and four consumers."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.clients import ORDERED, QUEUES, SHARED, TOPIC
from tests.faults.places import PlacedGroup, placed_group
from tests.faults.plan import KINDS, Fault, faults
from tests.faults.verdict import Period, Seen
from tests.support.elected_group import IDS, OK
from tests.support.load import read_queue
from tests.support.members import send_to
from tests.support.processes import Program, free_port, wait_until

# `make faults ROUNDS=50 SEED=7`; a round takes some 10 s. Each kind comes before any comes again.
ROUNDS = int(os.environ.get("ROUNDS", len(KINDS)))
SEED = int(os.environ.get("SEED", "1"))
# With FAULTS=some the test also passes where the machine forbids some kinds.
NEEDS_ALL = os.environ.get("FAULTS") != "some"
QUIET_SECONDS = 1.5  # After a round.
WRITABLE_LEAST = 0.3
DELIVERED_SECONDS_MAX = 90
SETTINGS = {
    # Small files, so that a full disk is noticed soon.
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 60_000,
    "messageIndexEnable": "false",
    "defaultTopicQueueNums": QUEUES,
}


class Clients:
    """The programs of the clients, and their books."""

    def __init__(self, folder: Path, names: str) -> None:
        self.folder = folder
        self._names = names
        self._running: dict[Path, Program] = {}

    def start(self, what: str, name: str, *those: object) -> None:
        books = self.folder / f"{what}-{name}.books"
        command = [sys.executable, "-m", "tests.faults.clients", what, self._names, str(books)]
        program = Program(
            [*command, *map(str, those)], log=books.with_suffix(".log"), port=free_port()
        )
        program.came_up = books.exists  # type: ignore[method-assign]
        self._running[books] = program.start()

    def stop(self, what: str) -> None:
        for path, program in self._running.items():
            if path.name.startswith(what):
                assert program.stop() == 0, program.last_lines()

    def seen(self) -> Seen:
        return Seen(self.folder.glob("produce-*.books"), self.folder.glob("consume-*.books"))


@contextmanager
def clients(folder: Path, names: str) -> Iterator[Clients]:
    """Four producers and four consumers at work, in four programs; those that still run are killed in the end."""
    made = Clients(folder, names)
    with ExitStack() as stack:
        stack.callback(lambda: [each.kill() for each in made._running.values()])
        made.start("produce", "one", 0, 2)
        made.start("produce", "two", 1, 3)
        made.start("consume", "one", ORDERED, SHARED)
        made.start("consume", "two", ORDERED, SHARED)
        yield made


@pytest.mark.timeout(240 + 90 * ROUNDS)
def test_nothing_acknowledged_is_lost_under_faults(tmp_path, report_last):
    with placed_group(tmp_path, **SETTINGS) as group:
        leader = group.wait_until_settled()
        address = group.brokers.members[leader].address
        wait_until(
            lambda: send_to(address, b"0-first-", TOPIC)[0] == OK, seconds=10, what="a topic"
        )
        with clients(tmp_path, group.brokers.names) as working:
            wait_until(lambda: working.seen().deliveries, seconds=60, what="the first delivery")
            kinds = [kind for kind in KINDS if kind.needs not in group.missing]
            chosen = faults(SEED, ROUNDS, kinds)
            periods: list[Period] = []
            for fault in chosen:
                periods.append(inflict(fault, group))
                time.sleep(QUIET_SECONDS)
            working.stop("produce")
            wait_until(
                lambda: working.seen().is_all_delivered(),
                seconds=DELIVERED_SECONDS_MAX,
                what="the delivery of all that was acknowledged",
            )
            working.stop("consume")
            seen = working.seen()
        leader = group.wait_until_settled()
        end, address = group.end_of(leader), group.brokers.members[leader].address
        stored = [
            [(offset, body.decode()) for offset, body in read_queue(address, TOPIC, queue_id)]
            for queue_id in range(QUEUES)
        ]
        seen.judge(stored)
        wait_until(lambda: equal_logs(tmp_path, group, end), seconds=60, what="equal logs")
        share = seen.writable(group.without_majority)
        for fault, period in zip(chosen, periods, strict=True):
            print(f"{fault}: {seen.longest_gap(*period):.1f} s without an acknowledgement")
        report_last(report(chosen, seen, share, group))
        assert share >= WRITABLE_LEAST
    assert not (NEEDS_ALL and group.missing), f"not on this machine: {group.missing}"


def inflict(fault: Fault, group: PlacedGroup) -> Period:
    """Let a fault happen, and wait until the group is whole again; when it began and ended."""
    leader = group.wait_until_settled()
    followers = [each for each in IDS if each != leader]
    member = leader if fault.of_leader else followers[fault.follower]
    print(f"{fault}, {member}, for {fault.seconds:.1f} s", flush=True)
    began = time.monotonic()
    fault.kind.do(group, member, fault.seconds)
    healed = time.monotonic()
    leader = group.wait_until_settled()
    print(f"  whole {time.monotonic() - healed:.1f} s later, {leader} leads", flush=True)
    return began, time.monotonic()


def equal_logs(folder: Path, group: PlacedGroup, end: int) -> bool:
    """Whether all logs reach `end`, and are equal up to there."""
    if min(group.end_of(each) for each in IDS) < end:
        return False
    logs = {
        b"".join(
            path.read_bytes() for path in sorted((folder / each / "store/commitlog").iterdir())
        )[:end]
        for each in IDS
    }
    return len(logs) == 1


def report(chosen: Sequence[Fault], seen: Seen, share: float, group: PlacedGroup) -> str:
    """Describe the run in one line."""
    counts = Counter(map(str, chosen))
    faults_done = ", ".join(f"{count} {name}" for name, count in counts.items())
    errors = ", ".join(f"{count} {name}" for name, count in seen.errors.items()) or "no error"
    missing = "".join(
        f"; not on this machine: faults of the {what} ({why})"
        for what, why in group.missing.items()
    )
    return (
        f"{len(chosen)} rounds of faults, SEED={SEED}: {faults_done}; {len(seen.acknowledged):,} messages acknowledged, "
        f"0 lost, {len(seen.deliveries):,} deliveries; producers saw {errors}; writable {share:.0%} of the time with a connected "
        f"majority{missing}"
    )
