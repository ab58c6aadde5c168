"""A group with a Java member and one of ours: both share its queues, and each takes over when the other leaves."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from cometmq import Admin, Message, Producer, PushConsumer, StoredMessage
from tests.interop import peer
from tests.interop.conftest import Cluster
from tests.interop.ours import new_topic, pushed
from tests.interop.reference import VERSION
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

QUEUES = 4
PER_QUEUE = 50
SECONDS = 30
KINDS: dict[str, dict[str, Any]] = {
    "push": {},
    "ordered": {"orderly": True, "lock_interval_ms": 1_000},
    "pop": {"client_rebalance": False},
}
# 4.9 has no pop.
CLIENTS = {"4.9.7": ("push", "ordered"), VERSION: ("push", "ordered", "pop")}


class Group:
    """What both members of a group were given; the Java one is `members`, the other one `consumer`."""

    def __init__(self, kind: str, members: peer.Members, topic: str) -> None:
        self.kind = kind
        self.consumer: PushConsumer | None = None
        self.members = members
        self._topic = topic
        self._round = 0
        self._lock = threading.Lock()
        self._ours: list[peer.Told] = []

    def listen(self, message: StoredMessage) -> None:
        told = peer.Told(
            message.body,
            queue_id=message.queue.queue_id,
            queue_offset=message.queue_offset,
        )
        with self._lock:
            self._ours.append(told)

    def send(
        self, producer: Producer, per_queue: int
    ) -> tuple[list[peer.Told], list[peer.Told]]:
        """Send so many to each queue; what of it our member was given in the end, and what the Java one."""
        self._round += 1
        front = b"%d:" % self._round
        for queue in producer.queues(self._topic):
            producer.send_many(
                [
                    Message(self._topic, front + b"%d:%d" % (queue.queue_id, n))
                    for n in range(per_queue)
                ],
                queue=queue,
            )

        def given() -> tuple[list[peer.Told], list[peer.Told]]:
            with self._lock:
                ours = [each for each in self._ours if each.body.startswith(front)]
            theirs = [
                each for each in self.members.told[self.kind] if each.body.startswith(front)
            ]
            return ours, theirs

        count = QUEUES * per_queue
        wait_until(
            lambda: len({each.body for part in given() for each in part}) >= count,
            seconds=SECONDS,
            what=f"{count} messages of {self.kind}",
        )
        return given()

    def share(self, producer: Producer) -> None:
        """Wait until both have a part: of what is pulled, half of the queues each."""

        def is_shared() -> bool:
            ours, theirs = ({each.queue_id for each in part} for part in self.send(producer, 3))
            if self.kind == "pop":
                return bool(ours and theirs)
            return len(ours) == len(theirs) == QUEUES // 2 and not ours & theirs

        wait_until(is_shared, seconds=SECONDS, what=f"both members of {self.kind}")


@pytest.fixture(scope="module")
def names(our_cluster: Cluster) -> str:
    return our_cluster.nameserver.address


@pytest.fixture(scope="module")
def groups(names: str) -> Iterator[dict[str, Group]]:
    """Groups of each client and kind ("4.9.7 push"), with both members."""
    made: dict[str, Group] = {}
    with ExitStack() as stack:
        for version, kinds in CLIENTS.items():
            homes = {
                kind: (new_topic(names, QUEUES), f"mixed_{kind}_{version.replace('.', '_')}")
                for kind in kinds
            }
            with Admin(names) as admin:
                for topic, group in [home for kind, home in homes.items() if kind == "pop"]:
                    # Each member pops all queues: who comes first has a message.
                    admin.topics.set_request_mode(topic, group, "POP")
            members = stack.enter_context(peer.Members(names, homes, version=version))
            for kind, (topic, group) in homes.items():
                mixed = made[f"{version} {kind}"] = Group(kind, members, topic)
                consumer = pushed(names, group, mixed.listen, topic, **KINDS[kind])
                mixed.consumer = stack.enter_context(consumer)
        for mixed in made.values():
            mixed.members.wait_started()
        yield made


@pytest.mark.parametrize(
    "which", [f"{version} {kind}" for version, kinds in CLIENTS.items() for kind in kinds]
)
def test_both_members_share_the_queues_and_no_message_comes_to_both(
    producer: Producer, groups: dict[str, Group], which: str
) -> None:
    group = groups[which]
    group.share(producer)
    ours, theirs = group.send(producer, PER_QUEUE)
    assert ours
    assert theirs
    assert not {each.body for each in ours} & {each.body for each in theirs}
    assert len(ours) + len(theirs) == QUEUES * PER_QUEUE
    if group.kind == "ordered":
        check_order(ours)
        check_order(theirs)


@pytest.mark.parametrize("which", ["4.9.7 push", f"{VERSION} push", f"{VERSION} pop"])
def test_ours_takes_over_when_the_java_member_leaves(
    producer: Producer, groups: dict[str, Group], which: str
) -> None:
    group = groups[which]
    group.members.leave(group.kind)
    wait_until(
        lambda: not group.send(producer, 1)[1], seconds=SECONDS, what="all queues for ours"
    )
    ours, theirs = group.send(producer, PER_QUEUE)
    assert len(ours) == QUEUES * PER_QUEUE
    assert not theirs


@pytest.mark.parametrize("version", CLIENTS)
def test_the_java_member_takes_over_in_order_when_ours_leaves(
    producer: Producer, groups: dict[str, Group], version: str
) -> None:
    group = groups[f"{version} ordered"]
    assert group.consumer is not None
    group.consumer.close()
    ours, theirs = group.send(producer, PER_QUEUE)
    assert not ours
    assert len(theirs) == QUEUES * PER_QUEUE
    check_order(theirs)


def check_order(given: list[peer.Told]) -> None:
    """Each queue's messages came one after the other."""
    offsets = defaultdict(list)
    for each in given:
        offsets[each.queue_id].append(each.queue_offset)
    for queue_id, seen in offsets.items():
        assert seen == sorted(seen), (queue_id, seen)
