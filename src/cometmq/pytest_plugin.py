"""pytest fixtures for programs that use RocketMQ: a nameserver and a broker for a test, started in about 50 ms.

    def test_an_order_is_announced(cometmq):
        place_order(17)                         # finds it by NAMESRV_ADDR, or give it cometmq.nameserver
        with PullConsumer(group="test") as consumer:
            consumer.subscribe("orders")
            assert consumer.receive(wait_ms=5000)[0].body == b"17"

The fixture `cometmq` is new for each test that uses it; `cometmq_session` is shared by the whole run and does not set
NAMESRV_ADDR. Both yield an `Embedded`. A marker sets keys of the broker.conf of `cometmq`:
`@pytest.mark.cometmq(autoCreateTopicEnable=False)`; with `grpc_port=0` the cluster also has a `grpc_address`. pytest finds this module if `cometmq` is installed.
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
    """Register the marker `cometmq`."""
    config.addinivalue_line(
        "markers", "cometmq(**settings): keys of a broker.conf for the fixture `cometmq`"
    )


@pytest.fixture
def cometmq(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> "Iterator[Embedded]":
    """Start a nameserver and a broker for this test, and yield them; NAMESRV_ADDR names the nameserver meanwhile."""
    from cometmq.embedded import Embedded

    marker = request.node.get_closest_marker("cometmq")
    settings = dict(marker.kwargs) if marker else {}
    grpc_port = settings.pop("grpc_port", None)
    with Embedded(settings=settings, grpc_port=grpc_port) as cluster:
        monkeypatch.setenv(_NAMESERVER_VARIABLE, cluster.nameserver)
        yield cluster


@pytest.fixture(scope="session")
def cometmq_session() -> "Iterator[Embedded]":
    """Start one nameserver and broker for the whole run, and yield them; tests must use their own topics."""
    from cometmq.embedded import Embedded

    with Embedded() as cluster:
        yield cluster
