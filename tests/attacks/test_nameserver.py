"""A stranger takes no living broker out of the routes, and puts nobody in its place."""

import json
import time

import pytest

from tests.attacks.stranger import Answered, Stranger
from tests.support import processes
from tests.support.good_client import GoodClient
from tests.support.processes import wait_until

REGISTER, UNREGISTER, ROUTE, ALL_TOPICS, REGISTER_TOPIC = 103, 104, 105, 206, 217
NO_PERMISSION, TOPIC_NOT_EXIST = 16, 17
TOPIC = "TBW102"
# The broker and its nameserver talk over 127.0.0.1; on Linux all of 127.0.0.0/8 is there.
ELSEWHERE = "127.0.0.2"


def identity(broker, **other: str) -> dict[str, str]:
    fields = {
        "brokerName": "broker-a",
        "brokerAddr": broker.address,
        "clusterName": "DefaultCluster",
        "brokerId": "0",
    }
    return {**fields, **other}


def register(
    peer: Stranger,
    fields: dict[str, str],
    *,
    perm: int = 6,
    topics: tuple[str, ...] = (TOPIC, "Other"),
) -> Answered:
    """Register with one topic of the broker's, and another."""
    table = {
        name: {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": perm}
        for name in topics
    }
    version = {"timestamp": int(time.time() * 1000), "counter": 99, "stateVersion": 0}
    body = {
        "topicConfigSerializeWrapper": {"topicConfigTable": table, "dataVersion": version},
        "filterServerList": [],
    }
    header = {**fields, "haServerAddr": "6.6.6.6:1", "compressed": "false", "bodyCrc32": "0"}
    return peer.ask(REGISTER, header, json.dumps(body).encode())


def route(nameserver) -> tuple[list[str], list[int]]:
    """The addresses of the topic's brokers, and the permissions of its queues."""
    with Stranger(nameserver.address) as peer:
        answer = peer.ask(ROUTE, {"topic": TOPIC, "acceptStandardJsonOnly": "true"})
    if answer.code == TOPIC_NOT_EXIST:
        return [], []
    found = json.loads(answer.body)
    addresses = [a for data in found["brokerDatas"] for a in data["brokerAddrs"].values()]
    return addresses, [data["perm"] for data in found["queueDatas"]]


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory, access):
    """One that only these attacks have."""
    with processes.nameserver(tmp_path_factory.mktemp("attacked")) as program:
        yield program


@pytest.fixture
def good_route(broker, nameserver) -> tuple[list[str], list[int]]:
    found = route(nameserver)
    assert found[0] == [broker.address]
    return found


@pytest.fixture
def stranger(nameserver):
    with Stranger(nameserver.address, source=ELSEWHERE) as peer:
        yield peer


def test_a_stranger_does_not_unregister_a_broker(broker, nameserver, stranger, good_route):
    for cluster in ("DefaultCluster", "Another"):
        stranger.ask(UNREGISTER, identity(broker, clusterName=cluster))
        assert route(nameserver) == good_route
    refused = stranger.ask(UNREGISTER, identity(broker))
    assert refused.code == NO_PERMISSION
    assert broker.address in refused.remark


def test_a_stranger_does_not_take_a_brokers_place(broker, nameserver, good_route):
    forged: list[dict[str, str]] = [
        {"brokerAddr": "6.6.6.6:10911"},
        {"brokerAddr": "6.6.6.6:10911", "clusterName": "Another"},
        {},
        {"clusterName": "Another"},
        {"brokerName": "broker-x"},
    ]
    for lie in forged:
        with Stranger(nameserver.address, source=ELSEWHERE) as stranger:
            refused = register(stranger, identity(broker, **lie), perm=0)
            assert (lie, refused.code) == (lie, NO_PERMISSION)
            assert "127.0.0.1" in refused.remark
            assert route(nameserver) == good_route
    # Nor does it when he has left.
    assert route(nameserver) == good_route


def test_a_stranger_does_not_change_a_topic(broker, nameserver, stranger, good_route):
    queues = {
        "brokerName": "broker-a", "readQueueNums": 0, "writeQueueNums": 0, "perm": 0,
        "topicSysFlag": 0,
    }  # fmt: skip
    body = {"queueDatas": [queues], "brokerDatas": [], "filterServerTable": {}}
    refused = stranger.ask(REGISTER_TOPIC, {"topic": TOPIC}, json.dumps(body).encode())
    assert refused.code == NO_PERMISSION
    assert route(nameserver) == good_route


def test_a_broker_comes_back_on_another_port_of_its_host(broker, nameserver, good_route):
    with Stranger(nameserver.address) as again:
        assert register(again, identity(broker, brokerAddr="127.0.0.1:1")).code == 0
        assert route(nameserver)[0] == ["127.0.0.1:1"]


def test_a_broker_that_has_left_is_followed_by_one_of_another_host(
    broker, nameserver, stranger, good_route
):
    assert register(stranger, identity(broker, brokerAddr="6.6.6.6:1")).code == NO_PERMISSION
    broker.kill()
    deadline = time.monotonic() + 10
    while register(stranger, identity(broker, brokerAddr="6.6.6.6:1")).code != 0:
        assert time.monotonic() < deadline
    assert route(nameserver)[0] == ["6.6.6.6:1"]


def test_brokers_that_leave_together_hold_nobody(nameserver):
    """Sixty with 5,000 topics each; one stays, whose route a good client asks for meanwhile."""
    topics = tuple(f"Topic{number}" for number in range(5_000))
    many: list[Stranger] = []  # Each speaks at once: who says nothing for 15 s is closed.
    with Stranger(nameserver.address) as stays:
        assert register(stays, fields_of("stays", 1)).code == 0
        for number in range(60):
            many.append(Stranger(nameserver.address))
            fields = fields_of(f"b{number}", number + 10)
            assert register(many[-1], fields, topics=topics).code == 0
        with GoodClient(
            nameserver.address, nameserver.pid, topic=TOPIC, asks_routes=True
        ) as good:
            for peer in many:
                peer.socket.close()
            wait_until(lambda: "Topic1" not in told(stays), seconds=30, what="all are gone")
    good.check()


def test_a_registration_of_many_topics_holds_nobody(nameserver):
    """Forty thousand topics, three times, and a good client that asks for the route of another broker's."""
    topics = tuple(f"Topic{number}" for number in range(40_000))
    with Stranger(nameserver.address) as stays, Stranger(nameserver.address) as big:
        assert register(stays, fields_of("stays", 1)).code == 0
        with GoodClient(
            nameserver.address, nameserver.pid, topic=TOPIC, asks_routes=True
        ) as good:
            for number in range(3):
                assert (
                    register(big, fields_of(f"b{number}", number + 10), topics=topics).code == 0
                )
        assert set(topics) <= set(told(big))
    # The reading thread shares the interpreter with the loop: more than 50 ms on a busy machine.
    good.check(wait_ms=120)


def fields_of(name: str, port: int) -> dict[str, str]:
    return {
        "brokerName": name, "brokerAddr": f"127.0.0.1:{port}", "clusterName": "c", "brokerId": "0",
    }  # fmt: skip


def told(peer: Stranger) -> list[str]:
    """The list of all topics."""
    topics: list[str] = json.loads(peer.ask(ALL_TOPICS).body)["topicList"]
    return topics
