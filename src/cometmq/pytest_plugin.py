"""Fixtures for tests of programs that use RocketMQ: a nameserver and a broker of their own, in 50 ms.

    def test_an_order_is_announced(cometmq):
        place_order(17)                       # finds it by NAMESRV_ADDR, or give it cometmq.nameserver
        with PullConsumer(group="test") as consumer:
            consumer.subscribe("orders")
            assert consumer.receive(wait_ms=5000)[0].body == b"17"

`cometmq` starts anew, with empty topics, for each test; `cometmq_session` is one for the whole run.
A marker gives keys of a broker.conf: `@pytest.mark.cometmq(autoCreateTopicEnable=False)`. pytest finds
this module by itself once `cometmq` is installed, and pays nothing for it until a test asks.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cometmq.embedded import Embedded

_NAMESERVER_VARIABLE = (
    "NAMESRV_ADDR"  # Where every RocketMQ client looks (cometmq.client.settings).
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "cometmq(**settings): keys of a broker.conf for the fixture `cometmq`"
    )


@pytest.fixture
def cometmq(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> "Iterator[Embedded]":
    """A nameserver and a broker for this test; NAMESRV_ADDR names them while it runs."""
    from cometmq.embedded import Embedded

    marker = request.node.get_closest_marker("cometmq")
    with Embedded(settings=marker.kwargs if marker else None) as cluster:
        monkeypatch.setenv(_NAMESERVER_VARIABLE, cluster.nameserver)
        yield cluster


@pytest.fixture(scope="session")
def cometmq_session() -> "Iterator[Embedded]":
    """A nameserver and a broker for the whole run: each test uses topics of its own."""
    from cometmq.embedded import Embedded

    with Embedded() as cluster:
        yield cluster
