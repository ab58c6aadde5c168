"""What is known of queues that nobody offers, and what a read makes of it."""

import pytest

from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.missing import (
    MissingBrokerQueues,
    QueuesMissing,
    check_missing,
    missing_queues,
)
from cometmq.spark.source.planning import covered_queues
from cometmq.spark.source.settings import SourceSettings
from tests.support.memory_cluster import MemoryCluster


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    for number in range(2):
        cluster.add("t", "a", number)
    cluster.add("orders-eu", "b")
    return cluster


def found(cluster: MemoryCluster, **options: str) -> list[MissingBrokerQueues]:
    given = {"nameserver": "x:1", **({"subscribe": "t"} | options)}
    if "subscribePattern" in options or "assign" in options:
        del given["subscribe"]
    settings = SourceSettings.parse(given, is_stream=False)
    return missing_queues(settings, covered_queues(settings.topics, cluster), cluster)


def shown(all_of: list[MissingBrokerQueues]) -> list[str]:
    return [str(queue) for each in all_of for queue in each.queues]


def test_nobody_is_missing_where_nothing_is_known(cluster):
    assert found(cluster) == []


def test_whom_the_nameserver_remembers_is_missing_with_the_queues_that_are_read(cluster):
    cluster.missing.append(MissingBroker("c", "x", 0, {"t": 2, "orders-us": 1, "%RETRY%t": 1}))
    assert shown(found(cluster)) == ["t@c:0", "t@c:1"]
    assert shown(found(cluster, subscribePattern="orders-.*")) == ["orders-us@c:0"]
    assert shown(found(cluster, subscribe="orders-eu")) == []
    assert shown(found(cluster, assign='{"t": [1]}')) == ["t@c:1"]
    assert shown(found(cluster, assign='{"t": {"a": [1]}}')) == []


def test_who_is_there_under_another_nameserver_is_not_missing(cluster):
    cluster.missing.append(MissingBroker("a", "x", 0, {"t": 2}))
    assert found(cluster) == []


def test_an_order_configuration_names_brokers(cluster):
    cluster.ordered = [MessageQueue("t", broker, 0) for broker in ("a", "c")]
    (one,) = found(cluster)
    assert shown([one]) == ["t@c:0"]
    assert "order configuration" in one.why


def test_the_brokers_that_the_user_names_are_all_that_must_be_there(cluster):
    cluster.missing.append(MissingBroker("c", "x", 0, {"t": 3}))
    assert found(cluster, brokers="a") == []
    assert shown(found(cluster, brokers="a, c")) == ["t@c:0", "t@c:1", "t@c:2"]
    (slip,) = found(cluster, brokers="a,bb")
    assert len(slip.queues) == 2
    assert (
        "not registered; did you mean 'b'?; its number of queues is assumed to be that of the other brokers"
        in slip.why
    )
    (elsewhere,) = found(cluster, brokers="b")
    assert "no queue of the topics" in elsewhere.why


def test_a_query_that_wants_other_queues_is_not_refused(cluster):
    cluster.missing.append(MissingBroker("c", "x", 0, {"t": 2}))
    settings = SourceSettings.parse({"nameserver": "x:1", "subscribe": "t"}, is_stream=False)
    some = found(cluster)
    check_missing(some, settings, wanted=lambda _queues: [])
    with pytest.raises(
        QueuesMissing, match=r"^1 queue is missing: 1 of 't' at broker 'c' \(it left"
    ):
        check_missing(some, settings, wanted=lambda queues: queues[:1])
