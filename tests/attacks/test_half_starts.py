"""A broker that was closed before it started, or failed on the way, leaves nothing open."""

from pathlib import Path
from typing import Any

import pytest

from cometmq.broker.server import Broker
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.net.clock import SystemClock
from tests.support import processes


def make(folder: Path, port: int, **settings: Any) -> Broker:
    values: dict[str, Any] = {
        "listen_port": port,
        "store_path": str(folder),
        "commitlog_file_size": 1 << 20,
    }
    return Broker(
        BrokerSettings(broker_name="broker-a", **{**values, **settings}), SystemClock()
    )


async def assert_startable(folder: Path, port: int) -> None:
    """The same directory and port can be taken, in this process too."""
    assert processes.is_free(port)
    assert processes.is_free(port - 2)
    broker = make(folder, port)
    await broker.start()
    await broker.close()


async def test_a_broker_that_is_closed_before_its_start_can_be_started(tmp_path):
    port = processes.broker_port()
    broker = make(tmp_path / "store", port)
    await broker.close()
    await broker.start()
    await broker.close()
    await broker.close()
    await assert_startable(tmp_path / "store", port)


@pytest.mark.parametrize(
    "settings",
    [{"broker_ip": "1:2:3"}, {"region_id": "\ud800"}],
    ids=["at its ports", "behind its ports"],
)
async def test_a_start_that_fails_gives_ports_and_store_back(tmp_path, settings):
    port = processes.broker_port()
    failed = make(tmp_path / "store", port, **settings)
    with pytest.raises(Exception, match=r"1:2:3|surrogates"):
        await failed.start()
    await assert_startable(tmp_path / "store", port)
    await failed.close()
