"""Which brokers the watcher keeps of a cluster with more than it can show."""

from __future__ import annotations

import pytest

from cometmq.admin import BrokerState, ClientConnection, GroupConfig, GroupState, Symptom
from cometmq.dashboard.rendering import new_environment
from cometmq.dashboard.settings import DashboardSettings
from cometmq.dashboard.watcher import BROKERS_MAX, Watcher
from tests.support.hand_clock import HandClock

MEMBER = ClientConnection("member", "127.0.0.1:1")


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


def test_what_the_doctor_found_of_a_group_is_told_with_it(tmp_path):
    watcher = Watcher(Cluster(), HandClock(), DashboardSettings(data_dir=tmp_path))  # type: ignore[arg-type]
    assert watcher.hanging_groups() == {}
    hangs = Symptom("progress", "billing", "bad", "a member hangs", "restart it")
    unread = Symptom("queues", "billing", "bad", "no member reads q0", "restart it")
    watcher.findings = [hangs, Symptom("topic", "billing", "note", "x", "y"), unread]
    assert watcher.hanging_groups() == {"billing": "a member hangs"}
    assert watcher.findings_about_group("billing") == [hangs, unread]
    assert watcher.findings_about_group("mailing") == []


@pytest.mark.parametrize(
    ("group", "says"),
    [
        (GroupState("billing", members=(MEMBER,)), "hangs"),
        (GroupState("mailing", members=(MEMBER,)), "active"),
        (GroupState("billing"), "no members"),
        (GroupState("billing", unread=("it may not be read",)), "unknown"),
        (
            GroupState(
                "billing",
                {"b": GroupConfig("billing", consume_enabled=False)},
                members=(MEMBER,),
                unread=("x",),
            ),
            "may not consume",
        ),
    ],
)
def test_a_group_has_one_state(group, says):
    macros = new_environment().get_template("macros.html").make_module({"now_ms": 0})
    shown = str(vars(macros)["group_state"](group, {"billing": 'a "member" hangs'}))
    assert f">{says}<" in shown
    assert shown.count("<span") == 1
    assert 'a "member"' not in shown
