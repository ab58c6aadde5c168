"""What a program in its defaults does not import: a start takes what its imports take, so they are held by name."""

from pathlib import Path

import pytest

from tests.support.programs import said_by_python

# In its defaults, up to where it serves, and closed again.
_BROKER = """
from cometmq.broker.__main__ import load_settings
from cometmq.broker.server import Broker
from cometmq.net.clock import SystemClock
from cometmq.net.loop import run

async def serve():
    flags = ["--listen-port", "0", "--store-path-root-dir", "store"]
    settings, _ = load_settings(None, arguments=flags)
    broker = Broker(settings, SystemClock())
    await broker.start()
    import sys
    print(*sys.modules)
    await broker.close()

run(serve())
"""
# What a broker has imported when it serves, and what the first SQL92 filter adds to that.
_FIRST_FILTER = """
import sys
from cometmq.broker.pull.filters import Filters
from cometmq.broker.server import Broker
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.subscription import SQL92, Subscription

before = set(sys.modules)
wanted = Subscription("orders", "region = 'eu'", SQL92)
found = Filters(BrokerSettings(), None).filter_of(wanted, "readers")
assert found.passes(b"region\\x01eu\\x02") and not found.passes(b"region\\x01us\\x02")
print(*sorted(set(sys.modules) - before))
"""
_NAMESERVER = "import sys, cometmq.nameserver.__main__; print(*sys.modules)"
_CLIENT = """
import sys, cometmq, cometmq.admin, cometmq.connect
for tier in (cometmq, cometmq.admin, cometmq.connect):
    for name in set(tier.__all__) - {"virtual", "Virtual"}:  # They are a broker.
        getattr(tier, name)
print(*sys.modules)
"""
_PRODUCER = "import sys; from cometmq import Producer; print(*sys.modules)"
_CONSUMER = "import sys; from cometmq import PushConsumer; print(*sys.modules)"

# Rooms and libraries of what is off, or of another program.
_OTHERS = (
    "cometmq.cli", "cometmq.dashboard", "cometmq.embedded", "cometmq.offline", "cometmq.spark",
    "click", "google", "grpc", "javaproperties", "jinja2", "msgspec", "numpy", "opentelemetry", "psutil", "pyarrow",
    "pydantic", "pyspark", "rich", "starlette", "typer", "uvicorn",
    "email", "unittest", "urllib.request", "xml",
)  # fmt: skip
# Of access control, the settings alone: they say that it is off.
_ACCESS = ("account_edits", "account_files", "auth_users", "gate", "known_users", "policies")
_SERVERS = (
    *_OTHERS, "cometmq.client", "cometmq.codec.sql92", "lz4", "yaml", "zstandard",
    *(f"cometmq.access.{name}" for name in _ACCESS),
)  # fmt: skip
# What a service that sends or consumes waits for at its start.
_CLIENTS = (*_OTHERS, "cometmq.broker", "cometmq.nameserver", "cometmq.client.admin")  # fmt: skip


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        pytest.param(_BROKER, (*_SERVERS, "cometmq.nameserver"), id="broker"),
        pytest.param(
            _NAMESERVER,
            (*_SERVERS, "cometmq.broker", "cometmq.store.message_store"),
            id="nameserver",
        ),
        pytest.param(_CLIENT, (*_OTHERS, "cometmq.broker", "cometmq.nameserver"), id="client"),
        pytest.param(
            _PRODUCER,
            (*_CLIENTS, "cometmq.client.consumer.rebalance", "cometmq.codec.sql92"),
            id="producer",
        ),
        pytest.param(_CONSUMER, (*_CLIENTS, "cometmq.client.producer.producer"), id="consumer"),
    ],
)
def test_what_is_off_is_not_imported(
    code: str, unwanted: tuple[str, ...], tmp_path: Path
) -> None:
    found = [
        name
        for name in _said(code, tmp_path)
        for each in unwanted
        if name == each or name.startswith(f"{each}.")
    ]
    assert found == [], f"import them where they are turned on: {found}"


def test_the_first_filter_imports_the_filters_alone(tmp_path: Path) -> None:
    """It comes while others are served, whom it holds up: 4 ms for these, and no library."""
    modules = ("compiler", "filter", "nodes", "parser", "rows", "tokens", "values")
    sql92 = ["cometmq.codec.sql92", *(f"cometmq.codec.sql92.{name}" for name in modules)]
    assert _said(_FIRST_FILTER, tmp_path) == sql92


def _said(code: str, folder: Path) -> list[str]:
    """The words that a program writes."""
    return said_by_python("-c", code, cwd=folder).split()


def test_headers_and_bodies_are_cheap_classes() -> None:
    """A usual dataclass costs ten times as much at each start; `cometmq.model.frozen` says which may be."""
    folder = Path(__file__).parents[2] / "src" / "cometmq" / "codec" / "headers"
    usual = [
        path.name
        for path in folder.glob("*.py")
        if "from dataclasses import dataclass" in path.read_text()
    ]
    assert usual == []
