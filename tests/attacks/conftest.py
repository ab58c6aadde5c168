"""Real programs on free ports for each attack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import frames, processes
from tests.support.accounts import NO_SLAVES
from tests.support.auth_users import ROOT, auth_settings, signed
from tests.support.good_client import rerun_waits

# Files whose cases run at brokers with access control, too: the bad peer is a user who may do everything. The others have been
# run without it alone; a file is added here when its cases have passed with it.
GUARDED = {"test_heartbeats.py", "test_filters.py"}


def pytest_collection_modifyitems(items):
    rerun_waits(items, under=__file__)


def pytest_generate_tests(metafunc):
    if metafunc.module.__name__.rpartition(".")[2] + ".py" in GUARDED:
        metafunc.parametrize("access", ["open", "guarded"], indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def access(request: pytest.FixtureRequest) -> Iterator[str]:
    """Whether the brokers of a case have access control; if so, each raw request that nobody signed is signed."""
    kind = getattr(request, "param", "open")
    with pytest.MonkeyPatch.context() as patch:
        if kind == "guarded":
            patch.setattr(processes, "broker", guarded_broker)
            patch.setattr(
                frames, "sign", lambda code, fields, body: signed(ROOT, code, fields, body)
            )
            patch.setenv("COMETMQ_ACCESS_KEY", ROOT.access_key)
            patch.setenv("COMETMQ_SECRET_KEY", ROOT.secret_key)
        yield kind


_open_broker = processes.broker


def guarded_broker(
    folder: Path, nameservers: str, *, settings: Mapping[str, object] | None = None, **more: Any
) -> processes.Program:
    """A broker as `processes.broker`, with Auth 2.0."""
    both = {**auth_settings(**NO_SLAVES), **(settings or {})}
    program = _open_broker(folder, nameservers, settings=both, **more)
    (folder / "broker.conf").chmod(0o600)
    return program


@pytest.fixture(scope="session")
def nameserver(tmp_path_factory):
    """One for all attacks but those on itself: each start takes a second, and who leaves it leaves nothing."""
    with processes.nameserver(tmp_path_factory.mktemp("nameserver")) as program:
        yield program


@pytest.fixture
def broker(tmp_path, nameserver, access):
    """A broker with defaults; a test that needs settings starts one of its own."""
    with processes.broker(tmp_path / "broker", nameserver.address) as program:
        yield program


@pytest.fixture(scope="module")
def standing(tmp_path_factory, nameserver, access):
    """One for all tests of a module that leave it as it was."""
    folder = tmp_path_factory.mktemp("standing")
    with processes.broker(folder / "broker", nameserver.address) as program:
        yield program
