"""One cluster and one dashboard for each process of the suite; a test that breaks something makes its own."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.special import Special, make_special
from tests.dashboard.web import READER, READER_PASSWORD, Served, Visitor
from tests.dashboard.world import fill
from tests.support.accounts import NO_SLAVES
from tests.support.auth_users import auth_settings
from tests.support.programs import small_cluster


@pytest.fixture(scope="session")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a nameserver of a cluster with one broker that holds `world`."""
    with small_cluster(tmp_path_factory.mktemp("cluster"), traceTopicEnable="true") as (
        names,
        _,
    ):
        asyncio.run(fill(names.address))
        yield names.address


@pytest.fixture(scope="session")
def served(nameserver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard of that cluster."""
    with Served(tmp_path_factory.mktemp("dashboard"), nameserver) as made:
        yield made


@pytest.fixture(scope="session")
def admin(served: Served) -> Visitor:
    """Who may change things."""
    return Visitor(served).log_in()


@pytest.fixture(scope="session")
def reader(served: Served) -> Visitor:
    """Who reads."""
    return Visitor(served).log_in(READER, READER_PASSWORD)


@pytest.fixture(scope="session")
def special(nameserver: str) -> Special:
    """Messages that died, that wait and that were traced."""
    return make_special(nameserver)


@pytest.fixture
def stranger(served: Served) -> Visitor:
    """Who is not logged in."""
    return Visitor(served)


@contextlib.contextmanager
def auth_cluster(folder: Path, *, nameserver_too: bool) -> Iterator[str]:
    """The address of a nameserver of a cluster with Auth 2.0, whose Super user is ROOT.

    A nameserver has users of its own: those that are made at brokers it does not know.
    """
    of_names = auth_settings(authConfigPath=folder / "users") if nameserver_too else {}
    with small_cluster(folder, of_names, **auth_settings(**NO_SLAVES)) as (names, _):
        yield names.address
