"""The lag of groups as `mqadmin consumerProgress` gives it at our brokers, beside the truth."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cometmq import Admin
from cometmq.model.names import retry_topic
from tests.interop import admin_jvm
from tests.support.lag_world import AT_ONE_BROKER, TRUTH, LagWorld, lag_world
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]


def test_consumer_progress_gives_the_lag_that_is_true(tmp_path: Path) -> None:
    with lag_world(tmp_path) as world:
        # It looks for the brokers of a group by the route of its retry topic.
        with Admin(world.names) as admin:
            for group in ("offline", "offline-at-one"):
                admin.topics.create(retry_topic(group), queues=1)
                wait_until(
                    lambda: retry_topic(group) in admin.topics.list(),  # noqa: B023
                    seconds=30,
                    what="the route",
                )

        def progress(group: str) -> str:
            home = tmp_path / "mqadmin"
            return admin_jvm.mqadmin(home, world.names, "consumerProgress", "-g", group)

        for group, truth in TRUTH.items():
            said = progress(group)
            total = re.search(r"Consume Diff Total: (-?\d+)", said)
            if truth is not None:
                assert total, said
                at_brokers = AT_ONE_BROKER if group == "offline-at-one" else truth
                assert int(total[1]) == at_brokers, f"{group}: {said}"
            else:
                assert "orders" not in said, f"{group}: {said}"
            if group == "popping":
                assert re.search(r"Consume Inflight Total: [1-9]", said), said
        world.programs["broker-b"].kill()
        check_without_a_broker(world, progress)


def check_without_a_broker(world: LagWorld, progress: Callable[[str], str]) -> None:
    """Of a broker that is away, mqadmin says nothing: its sum is that of the others; ours says "at least"."""

    half = (TRUTH["stuck-later"] or 0) // 2

    def halved() -> bool:
        total = re.search(r"Consume Diff Total: (-?\d+)", progress("stuck-later"))
        return total is not None and int(total[1]) == half

    wait_until(halved, seconds=120, what="mqadmin's sum without a broker")
    lag, unknown = world.listed()["stuck-later"]
    assert lag == half
    assert any("broker-b left the nameserver" in each for each in unknown)
