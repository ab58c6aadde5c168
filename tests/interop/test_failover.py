"""The official Java clients, and a Java broker, at a group of ours that elects its leader: three failovers.

docs/operate/elected-group.md says what the clients see: with another broker no send fails, but for the one that a client of 4.9
has in flight when the connection closes; without one, sends fail until the next poll of routes.
"""

import itertools
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cometmq.model.codes import RequestCode
from tests.interop import peer, reference
from tests.support import processes
from tests.support.elected_group import ElectedBrokers, elected_brokers
from tests.support.frames import ask
from tests.support.load import read_queue
from tests.support.members import end_of
from tests.support.processes import Program, wait_until
from tests.support.programs import until_killed
from tests.support.request_fields import topic_fields

VERSIONS = ("5.3.3", "4.9.7")
TOPICS = ALONE, BOTH = "alone", "both"  # Of the group only, and of another broker, too.
QUEUES = 4
POLL_MS = 5_000
TIMEOUT_SECONDS = 10  # Of sends (Peer.java).
# A poll, the timeout of a send that began before it, and an election on a busy machine.
ERRORS_SECONDS_MAX = POLL_MS / 1000 + TIMEOUT_SECONDS + 5
ENDINGS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(480)]


@contextmanager
def group_and_broker(folder: Path) -> Iterator[tuple[ElectedBrokers, Program]]:
    """A group with both topics, and a broker beside it with one of them."""
    with (
        elected_brokers(folder, defaultTopicQueueNums=QUEUES) as group,
        processes.broker(
            folder / "beside", group.names, settings={"brokerName": "broker-b"}
        ) as beside,
    ):
        leader = group.members[group.wait_for_leader()]
        for program, topic in ((leader, ALONE), (leader, BOTH), (beside, BOTH)):
            header, _ = ask(
                program.address,
                RequestCode.UPDATE_AND_CREATE_TOPIC,
                topic_fields(topic, QUEUES),
            )
            assert header["code"] == 0, header
        wait_until(
            lambda: all(
                b"broker-a" in reference.route_of(group.names, each) for each in TOPICS
            ),
            seconds=30,
            what="the routes of the topics",
        )
        yield group, beside


def group_of(version: str, topic: str) -> str:
    """Return the name of a consumer group of one version."""
    return f"{topic}_{version.replace('.', '_')}"


def acknowledged(stream: peer.Stream, topic: str) -> list[dict[str, Any]]:
    return [each for each in list(stream.told[topic]) if "error" not in each]


def waits_for_errors(told: list[dict[str, Any]]) -> list[float]:
    """Return how long each failed send took, s; the first send of all does not count."""
    return [
        each["at"] - before["at"]
        for before, each in itertools.pairwise(told)
        if "error" in each
    ]


def longest_error_period(told: list[dict[str, Any]]) -> float:
    """Return the longest time between two acknowledgements with an error between them, s."""
    periods = [0.0]
    last, has_error = told[0]["at"], False
    for each in told:
        if "error" in each:
            has_error = True
        else:
            if has_error:
                periods.append(each["at"] - last)
            last, has_error = each["at"], False
    return max(periods)


def fail_over(group: ElectedBrokers, streams: list[peer.Stream], how: signal.Signals) -> None:
    """End the leader, wait until all producers have sent to the next one, and start it again."""
    old = group.wait_for_leader()
    group.members[old].end(how)
    group.wait_for_leader()
    before = [len(acknowledged(each, ALONE)) for each in streams]
    wait_until(
        lambda: all(
            len(acknowledged(each, ALONE)) > count + 10
            for each, count in zip(streams, before, strict=True)
        ),
        seconds=60,
        what="acknowledgements of the new leader",
    )
    group.members[old].start()


def java_clients(stack: ExitStack, names: str) -> tuple[list[peer.Members], list[peer.Stream]]:
    """Start consumers and producers of all versions, and wait until they work."""
    consumers, streams = [], []
    for version in VERSIONS:
        groups = {
            "push": (ALONE, group_of(version, ALONE)),
            "ordered": (BOTH, group_of(version, BOTH)),
        }
        consumers.append(peer.Members(names, groups, version=version, poll_ms=POLL_MS))
        streams.append(peer.Stream(names, TOPICS, version=version, poll_ms=POLL_MS))
    for each in (*consumers, *streams):
        stack.enter_context(each)
    for consumer in consumers:
        consumer.wait_started()
    wait_until(
        lambda: all(acknowledged(each, topic) for each in streams for topic in TOPICS),
        seconds=60,
        what="first messages of all producers",
    )
    return consumers, streams


def test_java_clients_go_through_three_failovers_and_a_java_broker_has_everything(tmp_path):
    with group_and_broker(tmp_path) as (group, beside), ExitStack() as stack:
        consumers, streams = java_clients(stack, group.names)
        for how in ENDINGS:
            fail_over(group, streams, how)
        for stream in streams:
            stream.end()
        places = {topic: stored_places(group, beside, topic) for topic in TOPICS}
        for version, stream, consumer in zip(VERSIONS, streams, consumers, strict=True):
            waits = waits_for_errors(stream.told[BOTH])
            assert len(waits) <= (len(ENDINGS) if version.startswith("4.") else 0)
            assert all(seconds > TIMEOUT_SECONDS - 1 for seconds in waits), waits
            period = longest_error_period(stream.told[ALONE])
            print(f"{version}: sends to the group alone failed for {period:.1f} s at most")
            assert 0 < period < ERRORS_SECONDS_MAX
            check(stream, consumer, ALONE, "push", places[ALONE])
            check(stream, consumer, BOTH, "ordered", places[BOTH])
        wait_until(
            lambda: len({end_of(each.address) for each in group.members.values()}) == 1,
            seconds=20,
            what="equal logs",
        )
        for program in group.members.values():
            program.stop()
        for name in group.members:
            assert read_by_java(tmp_path / name, len(places[ALONE])) == places[ALONE]


Place = tuple[str, int, int]  # Broker, queue id and queue offset.


def stored_places(group: ElectedBrokers, beside: Program, topic: str) -> dict[Place, bytes]:
    """What is stored of a topic, by its place."""
    leader = group.members[group.wait_for_leader()]
    brokers = {"broker-a": leader.address}
    if topic == BOTH:
        brokers["broker-b"] = beside.address
    return {
        (name, queue_id, offset): body
        for (name, address), queue_id in itertools.product(brokers.items(), range(QUEUES))
        for offset, body in read_queue(address, topic, queue_id)
    }


def check(
    stream: peer.Stream,
    consumer: peer.Members,
    topic: str,
    kind: str,
    places: dict[Place, bytes],
) -> None:
    """Every acknowledged message is at its place, and was consumed."""
    for each in acknowledged(stream, topic):
        place = each["broker"], each["queueId"], each["queueOffset"]
        assert places.get(place) == each["body"].encode(), each
    wanted = set(places.values())
    wait_until(
        lambda: {told.body for told in list(consumer.told[kind])} >= wanted,
        seconds=60,
        what=f"all messages of {topic} at the Java consumer",
    )


def read_by_java(folder: Path, count: int) -> dict[Place, bytes]:
    """What a Java broker on the directory of a member has of the topic, by its place."""
    with until_killed(processes.nameserver(folder / "names")) as names:
        broker = reference.broker(
            folder, names.address, settings={"defaultTopicQueueNums": QUEUES}
        )
        with until_killed(broker):
            wait_until(
                lambda: broker.address.encode() in reference.route_of(names.address, ALONE),
                seconds=60,
                what="the route to the Java broker",
            )
            told = peer.read(names.address, ALONE, count)
    return {("broker-a", each.queue_id, each.queue_offset): each.body for each in told}
