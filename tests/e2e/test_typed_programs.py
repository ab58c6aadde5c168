"""The programs that type checkers accept in their strictest mode (tests/typing) do run."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq import Admin
from cometmq.embedded import Embedded
from tests.support.client_lives import CLASSES

FOLDER = Path(__file__).parents[1] / "typing"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    with Embedded() as cluster:
        with Admin(cluster.nameserver) as admin:
            admin.topics.create("typed", queues=1)
        yield cluster.nameserver


def test_there_is_a_program_for_each_client_class():
    assert {name.replace("_", "") for name in PROGRAMS} == {name.lower() for name in CLASSES}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_typed_program_runs(names, program):
    importlib.import_module(f"tests.typing.{program}").blocking(names)


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_typed_asyncio_program_runs(names, program):
    await importlib.import_module(f"tests.typing.{program}").with_asyncio(names)
