"""How often a plan asks: round trips to a broker that is 5 ms away, whatever the number of queues."""

import time

import pytest

from cometmq import Admin
from cometmq.embedded import Embedded
from cometmq.spark.source import planning
from cometmq.spark.source.cluster import SourceCluster
from cometmq.spark.source.settings import SourceSettings
from tests.support.far_away import FarAway

QUEUES = 1_000
FAR = "127.0.0.2"  # What the route names; the broker itself listens at 127.0.0.1.


@pytest.fixture(scope="module")
def far():
    """A broker of a topic with QUEUES queues behind a proxy."""
    settings = {"brokerIP1": FAR, "bindAddress": "127.0.0.1"}
    with Embedded(settings=settings) as mq:
        port = int(mq.broker.rpartition(":")[2])
        with FarAway(FAR, ("127.0.0.1", port), delay_ms=5) as proxy:
            with Admin(mq.nameserver) as admin:
                admin.topics.create("wide", queues=QUEUES)
            yield mq, proxy


@pytest.mark.parametrize(
    ("options", "requests", "trips_max"),
    [
        ({}, 2 * QUEUES, 4),  # From the earliest message to the latest.
        (
            {
                "startingTimestamp": "1700000000000",
                "startingOffsetsByTimestampStrategy": "latest",
            },
            2 * QUEUES,
            4,
        ),
        ({"startingOffsets": "committed"}, 3 * QUEUES, 6),
    ],
)
def test_a_plan_over_a_thousand_queues_takes_a_few_round_trips(
    far, options, requests, trips_max
):
    mq, proxy = far
    given = {"nameserver": mq.nameserver, "subscribe": "wide", "group": "g", **options}
    settings = SourceSettings.parse(given, is_stream=False)
    cluster = SourceCluster(settings)
    try:
        queues = planning.covered_queues(settings.topics, cluster)
        assert len(queues) == QUEUES
        cluster.max_offsets(queues[:1])  # The connection stands.
        proxy.reset()
        began = time.monotonic()
        starts = planning.resolve(settings.starting, queues, cluster)
        ends = planning.resolve(settings.ending, queues, cluster)
        took = time.monotonic() - began
    finally:
        cluster.close()
    assert starts == ends == dict.fromkeys(queues, 0)
    print(f"{proxy.requests} requests, {proxy.round_trips} round trips, {took * 1000:.0f} ms")
    assert proxy.requests == requests
    # On a busy machine a burst of 512 requests is read in two parts, between which an answer comes.
    assert proxy.round_trips <= 2 * trips_max
