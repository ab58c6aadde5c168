"""One cluster and one dashboard for each process of the suite; a test that breaks something makes its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cometmq import Credentials
from tests.dashboard.special import Special, make_special
from tests.dashboard.web import READER, READER_PASSWORD, Served, Visitor
from tests.dashboard.world import fill
from tests.support import processes
from tests.support.accounts import NO_SLAVES

ROOT = Credentials("root", "root-secret-of-the-cluster")
INNER = Credentials("inner", "inner-secret-of-the-cluster")


@pytest.fixture(scope="session")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a nameserver of a cluster with one broker that holds `world`."""
    folder = tmp_path_factory.mktemp("cluster")
    with processes.nameserver(folder / "nameserver") as names:
        settings = {
            "mappedFileSizeCommitLog": 64 << 20,
            "brokerName": "broker-a",
            "traceTopicEnable": "true",
        }
        with processes.broker(folder / "broker", names.address, settings=settings):
            asyncio.run(fill(names.address))
            yield names.address


@pytest.fixture(scope="session")
def served(nameserver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard of that cluster."""
    with Served(tmp_path_factory.mktemp("dashboard"), nameserver) as made:
        yield made


@pytest.fixture(scope="session")
def _admin(served: Served) -> Iterator[Visitor]:
    visitor = Visitor(served).log_in()
    yield visitor
    visitor.close()


@pytest.fixture
def admin(_admin: Visitor) -> Visitor:
    """Who may change things."""
    return _admin


@pytest.fixture(scope="session")
def reader(served: Served) -> Iterator[Visitor]:
    """Who reads."""
    visitor = Visitor(served).log_in(READER, READER_PASSWORD)
    yield visitor
    visitor.close()


@pytest.fixture(scope="session")
def special(nameserver: str) -> Special:
    """Messages that died, that wait and that were traced."""
    return make_special(nameserver)


@pytest.fixture
def stranger(served: Served) -> Iterator[Visitor]:
    """Who is not logged in."""
    visitor = Visitor(served)
    yield visitor
    visitor.close()


@contextlib.contextmanager
def auth_cluster(folder: Path, *, nameserver_too: bool) -> Iterator[str]:
    """The address of a nameserver of a cluster with Auth 2.0, whose Super user is ROOT.

    A nameserver has users of its own: those that are made at brokers it does not know.
    """
    settings: dict[str, Any] = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": _keys(ROOT, "username", "password"),
        "innerClientAuthenticationCredentials": _keys(INNER, "accessKey", "secretKey"),
    }
    more = {"authConfigPath": folder / "users", **settings} if nameserver_too else {}
    names = processes.nameserver(folder / "names", **more)
    (folder / "names" / "namesrv.conf").chmod(0o600)
    with names:
        broker = processes.broker(
            folder / "broker", names.address, settings={**settings, **NO_SLAVES}
        )
        (folder / "broker" / "broker.conf").chmod(0o600)
        broker.is_ready = broker.has_booted
        with broker:
            yield names.address


def _keys(credentials: Credentials, name: str, secret: str) -> str:
    return json.dumps({name: credentials.access_key, secret: credentials.secret_key})
