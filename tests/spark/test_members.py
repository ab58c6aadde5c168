"""Who gives the messages of a range: a replica what it has, the master what it lacks."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest

from cometmq.client import Message, Producer
from cometmq.client.results import PullStatus, RawPull
from cometmq.embedded import Embedded
from cometmq.model.errors import BrokerRefused, NetError
from cometmq.model.queue import MessageQueue
from cometmq.spark.format import RocketMQSource
from cometmq.spark.source.cluster import ReadFrom
from cometmq.spark.source.members import BrokerGroupMembers
from tests.support.frames import json_frame, parts_of, read_frame
from tests.support.memory_cluster import MemoryQueue, record

QUEUE = MessageQueue("T", "b", 0)
END = 20
REGISTER = 103


class Group:
    """A master with offsets 0-19 and replicas: what each has, and whom it suggests."""

    def __init__(self, suggests: int = 0, **replicas: range | Exception) -> None:
        self.held: dict[int, range | Exception] = {0: range(END)}
        self.held |= {int(name.removeprefix("r")): held for name, held in replicas.items()}
        self.suggests = suggests
        self.asked: list[tuple[int, int]] = []

    def ask(self, offset: int, member: int) -> Iterator[RawPull]:
        """Answers of four messages, until the member has no more."""
        self.asked.append((member, offset))
        held = self.held[member]
        if isinstance(held, Exception):
            raise held
        while offset < END:
            limits = (held.start, held.stop, b"", self.suggests)
            if offset < held.start:
                yield RawPull(PullStatus.OFFSET_ILLEGAL, held.start, *limits)
                return
            if offset >= held.stop:
                yield RawPull(PullStatus.NO_NEW_MESSAGE, offset, *limits)
                return
            until = min(offset + 4, held.stop, END)
            found = b"".join(
                record(QUEUE, each, MemoryQueue()) for each in range(offset, until)
            )
            limits = (held.start, held.stop, found, self.suggests)
            yield RawPull(PullStatus.FOUND, until, *limits)
            offset = until

    def read(self, read_from: ReadFrom, suggested: dict[MessageQueue, int]) -> list[int]:
        """The ends of the answers for [0, END)."""
        replicas = self.held.keys() - {0}
        members = BrokerGroupMembers(read_from, 0 in self.held, replicas, suggested)
        pulls = members.pulls(QUEUE, start=0, end=END, is_all=True, ask=self.ask)
        return [pull.next_offset for pull in pulls]

    @property
    def members(self) -> list[int]:
        """Who was asked, in order."""
        return [member for member, _ in self.asked]


WHOLE = [4, 8, 12, 16, 20]


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (range(END), [(1, 0)]),
        (range(10), [(1, 0), (0, 10)]),  # It lags.
        (range(8), [(1, 0), (0, 8)]),
        (range(5, END), [(1, 0), (0, 0)]),  # It began later.
        (range(0), [(1, 0), (0, 0)]),
        (NetError("gone"), [(1, 0), (0, 0)]),
        (BrokerRefused(2, "slaveReadEnable=false", "b"), [(1, 0), (0, 0)]),
    ],
)
def test_a_replica_gives_what_it_has_and_the_master_the_rest(held, asked):
    group = Group(r1=held)
    ends = group.read(ReadFrom.SLAVE, {})
    assert ends[-1] == END
    assert ends == sorted(set(ends))
    assert group.asked == asked


def test_the_master_alone_is_asked_where_that_is_wanted_or_nobody_else_is_there():
    group = Group(r1=range(END))
    assert group.read(ReadFrom.MASTER, {QUEUE: 1}) == WHOLE
    assert group.members == [0]
    alone = Group()
    assert alone.read(ReadFrom.SLAVE, {QUEUE: 3}) == WHOLE
    assert alone.read(ReadFrom.SUGGESTED, {QUEUE: 3}) == WHOLE
    assert alone.members == [0, 0]


def test_whom_an_answer_suggests_is_asked_next():
    suggested: dict[MessageQueue, int] = {}
    group = Group(r1=range(END), suggests=1)
    assert group.read(ReadFrom.SUGGESTED, suggested) == [4]
    assert suggested == {QUEUE: 1}
    assert group.read(ReadFrom.SUGGESTED, suggested) == WHOLE
    assert group.members == [0, 1]
    group.suggests = 0  # Caught up: the first answer sends it back.
    assert group.read(ReadFrom.SUGGESTED, suggested) == WHOLE
    assert group.asked[2:] == [(1, 0), (0, 4)]


def test_a_replica_without_its_master_reads_on_but_is_not_believed_that_it_is_the_end():
    group = Group(r2=range(10))
    del group.held[0]
    with pytest.raises(NetError, match="the master of b is not registered"):
        group.read(ReadFrom.SUGGESTED, {})
    assert group.asked == [(2, 0)]
    with pytest.raises(NetError, match="the master of b is not registered"):
        group.read(ReadFrom.MASTER, {})


@contextmanager
def registered(nameserver: str, topic: str, address: str) -> Iterator[None]:
    """A broker at an address is there as replica 1 of broker-a, which has the topic."""
    host, port = nameserver.split(":")
    # A broker that is new names all of its topics, which are never one only.
    table = {
        name: {
            "attributes": {}, "order": False, "perm": 6, "readQueueNums": 1, "topicName": name,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "writeQueueNums": 1,
        }
        for name in (topic, "TBW102")
    }  # fmt: skip
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1}
    wrapper = {"dataVersion": version, "topicConfigTable": table}
    fields = {
        "brokerName": "broker-a", "brokerAddr": address, "clusterName": "DefaultCluster",
        "brokerId": "1", "haServerAddr": address,
    }  # fmt: skip
    body = json.dumps({"topicConfigSerializeWrapper": wrapper}).encode()
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(json_frame(REGISTER, fields, body))
        answer = json.loads(parts_of(read_frame(connection))[1])
        assert answer["code"] == 0, answer["remark"]
        yield


def read(options: dict[str, str]) -> list[str]:
    """The bodies that a batch gives, read without Spark."""
    source = RocketMQSource(options)
    reader = source.reader(source.schema())
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [body.decode() for body in pa.Table.from_batches(found)["body"].to_pylist()]


def test_a_replica_that_lags_is_read_first_over_real_sockets(topic):
    """Two brokers whose messages differ, so that each tells who gave it."""
    with ExitStack() as both:
        master, replica = (both.enter_context(Embedded()) for _ in range(2))
        for place, cluster, count in (("master", master, 500), ("replica", replica, 300)):
            with Producer(cluster.nameserver) as producer:
                queue = producer.queues(topic)[0]
                rows = [Message(topic, f"{place} {each}".encode()) for each in range(count)]
                for start in range(0, count, 100):
                    producer.send_batch(rows[start : start + 100], queue=queue)
                assert queue.broker_name == "broker-a"
        both.enter_context(registered(master.nameserver, topic, replica.broker))
        one_queue = json.dumps({topic: [0]})
        given = {"nameServer": master.nameserver, "columns": "body", "assign": one_queue}
        from_master = [f"master {each}" for each in range(500)]
        lagging = [f"replica {each}" for each in range(300)] + from_master[300:]
        assert read(given) == from_master
        assert read({**given, "readFrom": "master"}) == from_master
        assert read({**given, "readFrom": "slave"}) == lagging
