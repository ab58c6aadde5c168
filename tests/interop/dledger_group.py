"""A group of three Java brokers 5.3.3 with DLedger (enableDLegerCommitLog), and the golden directory of one of them.

By hand, once: `python -m tests.interop.dledger_group FOLDER` makes FOLDER/dledger.tar.xz and FOLDER/expected.json, which
are in tests/golden/stores/dledger (its README has the settings). DLedger's own index is left out: 160 MiB of
zeros that an import does not read.
"""

import json
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from cometmq import Admin, Message, Producer, ProducerSettings, PullConsumer, SendResult
from cometmq.admin import GroupConfig
from cometmq.model.errors import SendFailed
from tests.interop import reference
from tests.support.frames import ask
from tests.support.processes import Program, broker_port, free_port, wait_until
from tests.support.programs import until_killed

NAMES = ("n0", "n1", "n2")
TOPIC = "Ledger"
# Small files, and thus several of each kind.
SETTINGS = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 6_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 2_000,
    "timerWheelEnable": "false",
    "defaultTopicQueueNums": 4,
    "messageDelayLevel": "1s 3s 30m 1h",
}
GROUP = "ledger_readers"

# Body, queue id and queue offset; the latter None for the message of a transaction, which is stored a second time.
Sent = tuple[bytes, int | None, int | None]


def members(
    folder: Path, nameserver: str, settings: Mapping[str, object] = SETTINGS
) -> list[Program]:
    """The three brokers, n0 to n2, each with its files in a folder of its name; not yet started."""
    peers = ";".join(f"{name}-127.0.0.1:{free_port()}" for name in NAMES)
    return [
        reference.broker(
            folder / name,
            nameserver,
            port=broker_port(),
            settings={
                **settings,
                "enableDLegerCommitLog": "true",
                "dLegerGroup": "broker-a",
                "dLegerPeers": peers,
                "dLegerSelfId": name,
            },
        )
        for name in NAMES
    ]


def leader_of(nameserver: str, brokers: Sequence[Program]) -> Program:
    """The member that is registered as brokerId 0, once there is one that runs."""

    def find() -> Program | None:
        said = ask(nameserver, 106)[1].decode()
        for broker in brokers:
            is_running = broker.process is not None and broker.process.poll() is None
            if is_running and f'0:"{broker.address}"' in said:
                return broker
        return None

    found = wait_until(find, seconds=120, what="a leader of the DLedger group")
    assert found is not None
    return found


def send_some(producer: Producer, start: int, count: int) -> list[Sent]:
    """Send messages with tags, keys and bodies of all sizes; what was sent, with queue and queue offset."""
    sent: list[Sent] = []
    for number in range(start, start + count):
        body = b"%05d" % number + b"x" * (number * 37 % 900)
        message = Message(TOPIC, body, f"tag{number % 3}", f"key{number}")
        done = _sent(producer, message)
        sent.append((body, done.queue.queue_id, done.queue_offset))
    return sent


def _sent(producer: Producer, message: Message) -> SendResult:
    """Send; again while the group refuses it, as a new leader of DLedger does for seconds (SYSTEM_BUSY)."""
    deadline = time.monotonic() + 90
    while True:
        try:
            return producer.send(message)
        except SendFailed:
            if time.monotonic() > deadline:
                raise


def fill(nameserver: str, brokers: Sequence[Program]) -> list[Sent]:
    """Send to the group, before and after its leader is killed; what its topic then has."""
    first = leader_of(nameserver, brokers)
    settings = ProducerSettings(send_timeout_ms=60_000)
    with Producer(nameserver, group="ledger_writers", settings=settings) as producer:
        sent = send_some(producer, 0, 250)
        first.kill()
        leader_of(nameserver, brokers)
        first.start()  # It comes back as a follower and lets the new leader repair its log.
        sent += send_some(producer, 250, 100)
        bodies = [b"of a batch %d" % number for number in range(10)]
        batch = producer.send_batch([Message(TOPIC, body) for body in bodies])
        sent += [
            (body, batch.queue.queue_id, batch.queue_offset + n)
            for n, body in enumerate(bodies)
        ]
        for number in range(3):
            producer.send(Message(TOPIC, b"later %d" % number, delay_level=3))
        with producer.transaction(Message(TOPIC, b"of a transaction")):
            pass
        sent.append((b"of a transaction", None, None))
    return sent


def commit_offsets(nameserver: str) -> None:
    """Let a consumer group have consumed 10 messages of each queue."""
    with Admin(nameserver) as admin:
        admin.groups.create(GroupConfig(GROUP))
    with PullConsumer(nameserver, group=GROUP) as consumer:
        for queue in consumer.queues(TOPIC):
            consumer.commit(queue, 10)


def stopped_group(folder: Path) -> tuple[Path, list[Sent]]:
    """Fill a group and stop it in order; the store directory of its last leader, and what was sent to its topic."""
    names = reference.nameserver(folder / "nameserver")
    brokers = members(folder, names.address)
    with ExitStack() as stack:
        for program in (names, *brokers):
            stack.enter_context(until_killed(program))
        sent = fill(names.address, brokers)
        commit_offsets(names.address)
        leader = leader_of(names.address, brokers)
        for broker in brokers:
            if broker is not leader:
                broker.stop()
        leader.stop()
    return folder / NAMES[brokers.index(leader)] / "store", sent


def main() -> int:
    """Fill a group and keep the directory of its leader."""
    target = Path(sys.argv[1]).resolve()
    store, sent = stopped_group(target / "work")
    with tarfile.open(target / "dledger.tar.xz", "w:xz") as packed:
        packed.add(store, "store", filter=_kept)
    lines = ",\n ".join(
        json.dumps([body.decode().rstrip("x"), len(body), *place]) for body, *place in sent
    )
    (target / "expected.json").write_text(f"[{lines}]\n")
    return 0


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    left_out = (
        "dledger-n0/index",
        "dledger-n1/index",
        "dledger-n2/index",
        "/compaction",
        ".bak",
    )
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if any(part in entry.name for part in left_out) else entry


if __name__ == "__main__":
    sys.exit(main())
