"""What the disk and very many queues cost: SYNC_FLUSH beside a bare write, and sends over many topics."""

import json
import socket
import time
from pathlib import Path
from statistics import median

from bench.load import run_loadgen
from bench.lone_work import lone_senders
from bench.measure import anonymous_bytes, processor_seconds
from bench.systems import FLOOR, JAVA, Running, running
from bench.work import WARM_SECONDS, Measured, Round
from tests.support.frames import json_frame, parts_of, read_frame

QUEUES = 8  # of each topic
# A Java broker maps each queue file: 80,000 are more than the kernel allows (vm.max_map_count).
TOPICS = (1, 1_000, 10_000)
JAVA_TOPICS_MAX = 1_000
SETTLE_SECONDS_MAX = 300
# Of a core, over three seconds: an idle broker takes less, one that makes 80,000 files twice as much.
SETTLED_SHARE = 0.1
SETTLE_LOOK_SECONDS = 3
TURNS = 3  # One window of some seconds says little: in two of them one topic was 0.9 and 1.1 of itself.
SENT_BEFORE = 4  # messages to each queue, before anything is measured
UPDATE_AND_CREATE_TOPIC = 17
MADE_AT_ONCE = 200


def do_store(name: str, folder: Path, *, seconds: int) -> dict[str, Measured]:
    """All rows of one system, on brokers of its own."""
    if name == FLOOR:
        return {}
    rows: dict[str, Measured] = {}
    with running(name, folder / "sync", flushDiskType="SYNC_FLUSH") as system:
        rows |= synchronous_sends(Round(system, seconds), folder)
    with running(name, folder / "topics", defaultTopicQueueNums=QUEUES) as system:
        rows |= sends_over_topics(Round(system, seconds))
    return rows


def synchronous_sends(work: Round, folder: Path) -> dict[str, Measured]:
    """One who waits for each, beside a bare write to the same disk; and many in flight."""
    warm(work, conns=4, window=64)
    lone_senders(work, folder)
    work.send("sync many", topic="Many", conns=4, window=256, size=128, secs=work.seconds)
    work.read_back()
    return work.rows


def sends_over_topics(work: Round) -> dict[str, Measured]:
    """The same load over one topic and over many, in turns; what the many keep of its speed."""
    warm(work, conns=4, window=256)
    counts = [count for count in TOPICS if work.system.name != JAVA or count <= JAVA_TOPICS_MAX]
    turns = [
        {count: over_topics(work, count, is_new=turn == 0) for count in counts}
        for turn in range(TURNS)
    ]
    for count in counts:
        # A copy: the last turn's own figures are still to be compared.
        row = work.rows[f"topics {count}"] = dict(turns[-1][count])
        for figure in ("per_second", "processor_us", "messages"):
            row[figure] = median(turn[count][figure] for turn in turns)
        ones = [(turn[counts[0]], turn[count]) for turn in turns]
        row["speed_kept"] = median(many["per_second"] / one["per_second"] for one, many in ones)
        row["processor_kept"] = median(
            one["processor_us"] / many["processor_us"] for one, many in ones
        )
        row["anonymous_bytes"] = max(turn[count]["anonymous_bytes"] for turn in turns)
    return work.rows


def over_topics(work: Round, count: int, *, is_new: bool) -> Measured:
    """A row of sends over so many topics; each queue of new ones gets its first messages, and its file, before."""
    prefix = f"Of{count}x"
    address = work.system.broker.address
    flags = {"conns": 4, "window": 256, "size": 128, "topics": count, "queues": QUEUES}
    if is_new:
        make_topics(work.system, prefix, count)
        messages = SENT_BEFORE * QUEUES * count
        run_loadgen("send", address, topic=prefix, secs=300, messages=messages, **flags)
    settle(work.system)
    with work.measured(f"topics {count}") as measured:
        measured.update(run_loadgen("send", address, topic=prefix, secs=work.seconds, **flags))
    measured["anonymous_bytes"] = anonymous_bytes(work.system.group)
    return measured


def settle(system: Running) -> None:
    """Wait until the broker has done what it does behind its answers."""
    before = processor_seconds(system.group)
    for _ in range(SETTLE_SECONDS_MAX // SETTLE_LOOK_SECONDS):
        time.sleep(SETTLE_LOOK_SECONDS)
        now = processor_seconds(system.group)
        if now - before < SETTLED_SHARE * SETTLE_LOOK_SECONDS:
            return
        before = now


def warm(work: Round, **flags: int) -> None:
    """Load before anything is measured, as in the other section."""
    run_loadgen(
        "send",
        work.system.broker.address,
        refused_share_max=1.0,
        topic="Warm",
        size=128,
        secs=WARM_SECONDS[work.system.name],
        **flags,
    )


def make_topics(system: Running, prefix: str, count: int) -> None:
    """Make the topics that loadgen will name: the prefix, and a number where there are several."""
    fields = {
        "defaultTopic": "TBW102",
        "readQueueNums": str(QUEUES),
        "writeQueueNums": str(QUEUES),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    names = [prefix] if count == 1 else [f"{prefix}{number}" for number in range(count)]
    with socket.create_connection(("127.0.0.1", system.broker.port), timeout=60) as peer:
        # Many at once: they share the writing of topics.json.
        for start in range(0, count, MADE_AT_ONCE):
            some = names[start : start + MADE_AT_ONCE]
            ask_all(
                peer,
                [
                    json_frame(UPDATE_AND_CREATE_TOPIC, {**fields, "topic": name})
                    for name in some
                ],
            )


def ask_all(peer: socket.socket, frames: list[bytes]) -> None:
    """Send requests together, and wait until each was answered well.

    Raises:
        RuntimeError: one was refused.
    """
    peer.sendall(b"".join(frames))
    for _ in frames:
        header = json.loads(parts_of(read_frame(peer))[1])
        while not header["flag"] & 1:  # What a broker asks of a member by itself.
            header = json.loads(parts_of(read_frame(peer))[1])
        if header["code"]:
            raise RuntimeError(f"a request was refused: {header}")
