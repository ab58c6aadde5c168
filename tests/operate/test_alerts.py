"""Each alert of deploy/prometheus fires when its cause is there, and resolves when it is gone; each query of the board has data.

The tests share one cluster and go on where the one before has ended.
"""

import contextlib
import json
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
)
from cometmq.model.codes import RequestCode
from tests.operate.watched import (
    ALERTS,
    BOARD,
    OF_MACHINE,
    RULES,
    SHORTER,
    SMALL_MEGABYTES,
    WINDOW,
    Watched,
    alerts,
    faster,
    other_version,
    promtool,
)
from tests.support import certificates
from tests.support.frames import ask
from tests.support.iofault import Fault
from tests.support.loop_disk import LoopDisk
from tests.support.members import send_to
from tests.support.metrics_page import page
from tests.support.processes import Program, is_known_to, wait_until
from tests.support.programs import halted

# A topic of the one broker, and two of the other.
AT_A, AT_B, MAILS = "of-a", "of-b", "mails"
# A stalled broker must answer most scrapes within their second, also where it takes a good part of it to run.
STOP_SECONDS, GO_SECONDS = 0.35, 1.6
# A member stays connected to its leader if it answers within 3 s.
LAG_SECONDS = 2.3
FAST = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, close_timeout_ms=1_000)
# A machine may be many times slower than ours: a wait ends when its cause is there.
PATIENCE_SECONDS = 150

pytestmark = pytest.mark.timeout(600)


def create_topic(broker: Program, topic: str) -> int:
    """Create a topic at one broker; the code of its answer."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    header, _ = ask(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    code: int = header["code"]
    return code


@contextmanager
def repeated(work: Callable[[], object], seconds: float) -> Iterator[None]:
    """Do something again and again beside the block, whatever comes of it."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(seconds):
            with contextlib.suppress(Exception):
                work()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(go_on)
        try:
            yield
        finally:
            over.set()
            done.result()


@contextmanager
def traffic(world: Watched) -> Iterator[None]:
    """Producers to both masters, and a group that consumes what they send."""
    names = world.nameservers
    for topic, name in ((AT_A, "a"), (AT_B, "b"), (MAILS, "b")):
        assert create_topic(world.brokers[name], topic) == 0
    settings = ProducerSettings(send_timeout_ms=1_000)
    with ExitStack() as stack:
        for topic in (AT_A, AT_B):
            producer = stack.enter_context(Producer(names, settings=settings))
            batch = [Message(topic, b"x" * 100) for _ in range(50)]
            what = f"a route of {topic}"
            wait_until(lambda: _sent(producer, batch), seconds=PATIENCE_SECONDS, what=what)  # noqa: B023
            stack.enter_context(repeated(lambda p=producer, b=batch: p.send_many(b), 0.1))  # type: ignore[misc]
        stack.enter_context(
            PushConsumer(
                names,
                group="billing",
                listener=lambda _: None,
                subscriptions=[AT_A, AT_B],
                settings=FAST,
            )
        )
        yield


def _sent(producer: Producer, batch: list[Message]) -> bool:
    with contextlib.suppress(Exception):
        producer.send_many(batch)
        return True
    return False


@pytest.fixture(scope="module")
def busy(world: Watched) -> Iterator[Watched]:
    with traffic(world):
        yield world


def fires(world: Watched, *names: str) -> None:
    """Wait until all of these alerts have fired.

    Raises:
        TimeoutError: some have not.
    """
    wanted = {f"CometMQ{name}" for name in names}

    def have_fired() -> bool:
        world.prometheus.firing()
        return wanted <= world.prometheus.seen

    try:
        wait_until(have_fired, seconds=PATIENCE_SECONDS, what="alerts")
    except TimeoutError:
        raise TimeoutError(f"not fired: {wanted - world.prometheus.seen}") from None


def resolve(world: Watched) -> None:
    """Wait until no alert fires; those that a busy machine causes may come again, but each must have resolved once.

    Raises:
        TimeoutError: some fire all the time.
    """
    left: set[str] = set()
    of_machine = set(OF_MACHINE)

    def have_resolved() -> bool:
        nonlocal left
        firing = world.prometheus.firing()
        of_machine.intersection_update(firing)
        left = (firing - OF_MACHINE) | of_machine
        return not left

    try:
        wait_until(have_resolved, seconds=PATIENCE_SECONDS, what="an end of all alerts")
    except TimeoutError:
        causes = [
            each["metric"]
            for each in world.prometheus.ask('ALERTS{alertstate="firing"}')
            if each["metric"]["alertname"] in left
        ]
        raise TimeoutError(f"not resolved: {causes}") from None


def test_the_rules_are_valid_and_only_their_times_differ_here(tmp_path: Path) -> None:
    for name in ("recording.yml", "alerts.yml"):
        done = promtool("check", "rules", RULES / name)
        assert done.returncode == 0, done.stdout + done.stderr
    done = promtool("check", "config", RULES / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    text = ALERTS.read_text()
    for before in SHORTER:
        assert text.count(before) == 1, before
    assert faster(text) != text


def test_prometheus_finds_the_pages_well_formed(busy: Watched) -> None:
    """Names that are RocketMQ's, and lines of OpenTelemetry's exporter, are not ours to choose."""
    for port in busy.pages.values():
        found = promtool("check", "metrics", given=page(port).encode()).stderr.decode()
        assert [
            line
            for line in found.splitlines()
            if not line.startswith(("rocketmq_", "otel_scope_info", "target_info"))
        ] == []


def test_a_cluster_that_is_well_has_no_alert(busy: Watched) -> None:
    watching = busy.prometheus
    wait_until(
        lambda: watching.series("cometmq-broker") == 7 and watching.series("cometmq-nameserver") == 2,
        seconds=PATIENCE_SECONDS, what="all targets",
    )  # fmt: skip
    wait_until(
        lambda: watching.ask('cometmq_replication_connected{role="slave"} == 1'),
        seconds=PATIENCE_SECONDS, what="a copy",
    )  # fmt: skip
    wait_until(lambda: watching.firing() <= OF_MACHINE, seconds=PATIENCE_SECONDS, what="peace")
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        assert watching.firing() <= OF_MACHINE
        time.sleep(0.2)
    watching.seen.clear()


def queries() -> list[str]:
    board = json.loads(BOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    fill = {"$cluster": ".*", "$broker": ".*", "$__rate_interval": f"{WINDOW}s"}
    for name, value in fill.items():
        asked = [each.replace(name, value) for each in asked]
    return asked


def test_each_query_of_the_board_has_an_answer(busy: Watched) -> None:
    """Numbers, not only series: a panel full of NaN says nothing."""
    watching = busy.prometheus
    left = set(queries())
    assert len(left) > 40

    def all_answered() -> bool:
        left.difference_update(
            query
            for query in list(left)
            if any(each["value"][1] != "NaN" for each in watching.ask(query))
        )
        return not left

    with contextlib.suppress(TimeoutError):
        wait_until(all_answered, seconds=PATIENCE_SECONDS, what="answers")
    assert left == set()


def test_a_slave_shows_its_own_state_and_nothing_of_its_masters_twice(busy: Watched) -> None:
    text, of_master = (page(busy.pages[each]) for each in ("slave", "a"))
    for name in (
        "rocketmq_consumer_lag_messages", "cometmq_consumer_offsets", "cometmq_consumer_members",
        "cometmq_dead_letters", "cometmq_oldest_half_message_seconds",
        "cometmq_replication_slaves",
    ):  # fmt: skip
        assert f"\n{name}{{" not in text
        assert f"\n{name}{{" in of_master
    lines = [line for line in text.splitlines() if line.startswith(("cometmq_", "process_"))]
    assert lines
    assert all('broker_id="1",role="slave"' in line for line in lines)
    watching = busy.prometheus
    [gap] = watching.ask('cometmq_replication_gap_seconds{node_id="broker-a"}')
    assert (gap["metric"]["slave"], gap["metric"]["role"]) == ("1", "master")
    versions = watching.ask("count by (version, kernel) (cometmq_build_info)")
    assert [each["value"][1] for each in versions] == ["9"]


@contextmanager
def stalls(
    program: Program, stop_seconds: float = STOP_SECONDS, go_seconds: float = GO_SECONDS
) -> Iterator[None]:
    """Stop and continue a process, as a machine without processor time would."""

    def stall() -> None:
        with halted(program):
            time.sleep(stop_seconds)

    with repeated(stall, go_seconds):
        yield


@contextmanager
def bad_groups(world: Watched) -> Iterator[None]:
    """A group that hangs, one that makes dead letters, and a transaction that nobody ends."""
    names, over = world.nameservers, threading.Event()
    with ExitStack() as stack:
        for group, topic, listener in (
            ("fraud-check", AT_B, lambda _: over.wait(300)),
            ("mailing", MAILS, lambda _: False),
        ):
            settings = replace(FAST, retries_max=0)
            stack.enter_context(
                PushConsumer(
                    names,
                    group=group,
                    listener=listener,
                    subscriptions=[topic],
                    settings=settings,
                )
            )
        stack.callback(over.set)
        producer = stack.enter_context(Producer(names, group="booking"))
        producer.send_many([Message(MAILS, b"To whom?") for _ in range(3)])
        transaction = producer.transaction(Message(AT_B, b"?"))
        transaction.__enter__()
        stack.callback(transaction.__exit__, None, None, None)
        yield


def replication_breaks(world: Watched) -> None:
    """The slave hangs while its master is written to; then the master dies."""
    slave = world.brokers["slave"]
    with halted(slave):
        fires(world, "SlaveBehind")
    world.brokers["a"].kill()
    fires(world, "BrokerWithoutMaster", "SlaveNotCopying")


def group_breaks(world: Watched) -> None:
    """A member lags while its group is written to; then the leader dies, and then another member."""
    group = world.group
    leader = group.wait_for_leader(PATIENCE_SECONDS)
    slow, last = sorted(group.members.keys() - {leader})
    with (
        repeated(lambda: send_to(group.members[leader].address), 0.1),
        stalls(group.members[slow], LAG_SECONDS, 0.2),
    ):
        fires(world, "GroupMemberLags")
    group.members[leader].kill()
    fires(world, "GroupMemberMissing", "GroupElectsOften")
    group.members[last].kill()
    fires(world, "GroupWithoutLeader")


def broken_settings(world: Watched) -> Mapping[str, object]:
    """A full disk, no permission to write, one topic at most, and a certificate that expires in two days."""
    return {
        "diskSpaceWarningLevelRatio": 1, "brokerPermission": 4, "topicsMax": 1, "tls.server.mode": "permissive",
        **certificates.server_keys(certificates.authority(world.folder / "ca")),
    }  # fmt: skip


def leave_few_descriptors(program: Program) -> None:
    """Set the limit of descriptors to a little more than a program has open now; that number still changes after a start."""
    fds = sum(1 for _ in Path(f"/proc/{program.pid}/fd").iterdir())
    hard = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (int(fds / 0.85), hard))


@contextmanager
def fills(disk: LoopDisk) -> Iterator[None]:
    """Have something take 2 % of a disk each second; it begins again before there is no room."""
    filler = disk.root / "filler"
    piece = (SMALL_MEGABYTES << 20) // 200

    def fill() -> None:
        space = os.statvfs(disk.root)
        with filler.open("ab") as file:
            if space.f_bavail < space.f_blocks // 10:
                file.truncate(0)
            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, piece)

    try:
        with repeated(fill, 0.25):
            yield
    finally:
        filler.unlink(missing_ok=True)


def broker_d_is_run_badly(world: Watched) -> None:
    """Its disk fills. It dies, and comes back with another version, bad settings and only one nameserver; then the other nameserver dies."""
    with fills(world.small):
        fires(world, "DiskFills")
    world.brokers["d"].kill()
    fires(world, "BrokerDown", "BrokerMissing")
    bad = world.broker_d(world.names[0].address, **broken_settings(world))
    bad.env |= other_version(world.folder / "other", "0.0.1")
    world.brokers["d"] = bad.start()
    with (
        repeated(lambda: leave_few_descriptors(bad), 0.5),
        repeated(lambda: [create_topic(bad, f"many-{number}") for number in range(3)], 0.5),
    ):
        fires(
            world, "NameserversDisagree", "VersionsDiffer", "DiskNearlyFull", "StoreRefusesWrites",
            "BrokerPermission", "DescriptorsNearlyUsed", "LimitReached", "CertificateExpires",
        )  # fmt: skip
    world.names[1].kill()
    fires(world, "NameserverDown")


def test_each_alert_fires_and_resolves(busy: Watched) -> None:
    with ThreadPoolExecutor(3) as pool, stalls(busy.brokers["b"]), bad_groups(busy):
        busy.disk.fail(Fault("fdatasync", "commitlog", code=0, delay_ms=1_500))
        tracks = [
            pool.submit(each, busy)
            for each in (replication_breaks, broker_d_is_run_badly, group_breaks)
        ]
        fires(
            busy, "FlushSlow", "LoopDelayed", "LagGrows", "LagOld", "GroupStuck", "DeadLetters",
            "DeadLettersWaiting", "HalfTransactionsOld",
        )  # fmt: skip
        for track in tracks:
            track.result()
    assert busy.prometheus.seen == {rule["alert"] for rule in alerts()}

    busy.disk.heal()
    busy.names[1].start()
    busy.brokers["d"].stop()
    busy.brokers["d"] = busy.broker_d().start()
    busy.brokers["a"].start()
    for member in busy.group.members.values():
        if member.process is None or member.process.poll() is not None:
            member.start()
    masters = [busy.brokers[name].address for name in ("a", "b", "d")]
    for each in busy.names:  # The client may ask either, and one has just begun.
        wait_until(
            lambda: all(is_known_to(each.address, master) for master in masters),  # noqa: B023
            seconds=PATIENCE_SECONDS, what="all masters at both nameservers",
        )  # fmt: skip
    with Admin(busy.nameservers) as admin:
        admin.topics.delete("%DLQ%mailing")
        admin.groups.delete("fraud-check")
        admin.groups.delete("mailing")
    resolve(busy)
