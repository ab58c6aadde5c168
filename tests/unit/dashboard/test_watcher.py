"""Which brokers the watcher keeps of a cluster with more than it can show."""

from __future__ import annotations

from cometmq.admin import BrokerState
from cometmq.dashboard.settings import DashboardSettings
from cometmq.dashboard.watcher import BROKERS_MAX, Watcher
from tests.support.hand_clock import HandClock


class Cluster:
    """What an admin says of brokers: their names, in order."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.polls = 0

    @property
    def admin(self) -> Cluster:
        return self

    @property
    def brokers(self) -> Cluster:
        return self

    async def list(self) -> list[BrokerState]:
        self.polls += 1
        runtime = {"polls": str(self.polls)}
        return [BrokerState("c", name, 0, "127.0.0.1:1", True, runtime) for name in self.names]


async def test_a_new_broker_pushes_none_out_that_would_look_alive_for_ever(tmp_path):
    many = [f"b{number:03d}" for number in range(BROKERS_MAX + 5)]
    cluster = Cluster(*many)
    watcher = Watcher(cluster, HandClock(), DashboardSettings(data_dir=tmp_path))  # type: ignore[arg-type]
    await watcher.look()
    cluster.names = ["a-new-one", *many]
    await watcher.look()
    kept = watcher.brokers()
    assert [each.state.broker_name for each in kept] == many[:BROKERS_MAX]
    assert {each.told("polls") for each in kept} == {"2"}
    cluster.names.remove(many[0])
    await watcher.look()
    names = [each.state.broker_name for each in watcher.brokers()]
    assert names == ["a-new-one", *many[:BROKERS_MAX]], "the one that left is shown as away"
    assert [each.what.split()[2] for each in watcher.troubles()] == [many[0]]
