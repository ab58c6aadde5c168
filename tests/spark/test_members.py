"""Who gives the messages of a range: a replica what it has, the master what it lacks."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from cometmq import Message, Producer
from cometmq.embedded import Embedded
from cometmq.spark.format import RocketMQSource
from tests.support.frames import json_frame, parts_of, read_frame

REGISTER = 103


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
