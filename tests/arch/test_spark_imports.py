"""Spark knows what every user of the package may: public names of the client, offline, values and errors."""

import ast
from collections.abc import Iterator

import pytest

from tests.arch.sources import modules
from tests.support.public_names import TIERS

ROOMS = ("cometmq.spark", "cometmq.offline", "cometmq.model", "cometmq.errors")


def is_in_a_room(module: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in ROOMS)


def imported(text: str) -> Iterator[str]:
    """All that a module imports of the package, as dotted names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def strangers(text: str) -> list[str]:
    """Of these what Spark may not know."""
    public = {f"{tier.__name__}.{name}" for tier in TIERS for name in tier.__all__}
    public |= {*(tier.__name__ for tier in TIERS), "cometmq.__version__"}
    return [
        name
        for name in imported(text)
        if name.split(".")[0] == "cometmq" and name not in public and not is_in_a_room(name)
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from cometmq import Admin\nfrom cometmq.connect import QueueReader", []),
        ("import cometmq.admin\nimport pyarrow", []),
        (
            "from cometmq.errors import NetError\nfrom cometmq.model.queue import MessageQueue",
            [],
        ),
        ("from cometmq import Admin, client", ["cometmq.client"]),
        ("def f():\n    from cometmq.client.api import asking", ["cometmq.client.api.asking"]),
        ("from cometmq.client.results import RawPull", ["cometmq.client.results.RawPull"]),
        ("import cometmq.client.sync.portal", ["cometmq.client.sync.portal"]),
        ("from cometmq.codec.record import Record", ["cometmq.codec.record.Record"]),
        ("from cometmq import kernel", ["cometmq.kernel"]),
    ],
)
def test_what_is_imported_from_within_is_seen(text, found):
    assert strangers(text) == found


def test_spark_imports_public_names_only():
    found = [
        f"{module.name}: {name}"
        for module in modules()
        if module.name.startswith("spark/")
        for name in strangers(module.text)
    ]
    assert not found, "give it a public name"


def test_rooms_below_import_no_public_tier():
    """They would import what stands above them; import-linter does not read stub files."""
    rooms = ("cli/", "dashboard/", "spark/", "embedded/", "pytest_plugin.py")
    tiers = {tier.__name__ for tier in TIERS} - {"cometmq"}
    names = {f"cometmq.{name}" for name in TIERS[0].__all__}
    found = {
        f"{module.name}: {name}"
        for module in modules()
        if not module.name.startswith(rooms)
        for name in imported(module.text)
        if name in names or any(name == tier or name.startswith(f"{tier}.") for tier in tiers)
    }
    assert not found
