"""Real programs on free ports for each attack, without and with access control."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.open_only import OPEN_ONLY
from tests.support import frames, processes
from tests.support.accounts import NO_SLAVES
from tests.support.auth_users import ROOT, auth_settings, signed
from tests.support.good_client import rerun_waits
from tests.support.processes import Program

Maker = Callable[..., Program]
_open_broker, _open_nameserver = processes.broker, processes.nameserver


def pytest_collection_modifyitems(items):
    rerun_waits(items, under=__file__)


def pytest_generate_tests(metafunc):
    """Run each case at servers without and with access control, unless `OPEN_ONLY` says why it cannot."""
    file = f"{metafunc.module.__name__.rpartition('.')[2]}.py"
    if not {file, f"{file}::{metafunc.function.__name__}"} & OPEN_ONLY.keys():
        metafunc.parametrize("access", ["open", "guarded"], indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def access(request: pytest.FixtureRequest) -> Iterator[str]:
    """Whether the servers of a case have access control.

    If they have, each raw request that nobody signed is signed by a Super user, and clients and commands find his credentials in the
    environment.
    """
    kind = getattr(request, "param", "open")
    made: list[Program] = []
    with pytest.MonkeyPatch.context() as patch:
        is_guarded = kind == "guarded"
        make_broker = guarded_broker if is_guarded else _open_broker
        make_nameserver = guarded_nameserver if is_guarded else _open_nameserver
        patch.setattr(processes, "broker", _noting(made, make_broker))
        patch.setattr(processes, "nameserver", _noting(made, make_nameserver))
        if is_guarded:
            patch.setattr(
                frames, "sign", lambda code, fields, body: signed(ROOT, code, fields, body)
            )
            patch.setenv("COMETMQ_ACCESS_KEY", ROOT.access_key)
            patch.setenv("COMETMQ_SECRET_KEY", ROOT.secret_key)
        yield kind
    running = [each.command for each in made if each.process and each.process.poll() is None]
    assert not running, "a fixture of a module that starts servers must ask for `access`"


def _noting(made: list[Program], make: Maker) -> Maker:
    def noted(*args: Any, **more: Any) -> Program:
        made.append(make(*args, **more))
        return made[-1]

    return noted


def guarded_broker(
    folder: Path, nameservers: str, *, settings: Mapping[str, object] | None = None, **more: Any
) -> Program:
    """A broker as `processes.broker`, with Auth 2.0."""
    both = {**auth_settings(**NO_SLAVES), **(settings or {})}
    return _open_broker(folder, nameservers, settings=both, **more)


def guarded_nameserver(folder: Path, *, port: int | None = None, **settings: Any) -> Program:
    """A nameserver as `processes.nameserver`, with Auth 2.0."""
    both: dict[str, Any] = {**auth_settings(authConfigPath=folder / "users"), **settings}
    return _open_nameserver(folder, port=port, **both)


@pytest.fixture(scope="session")
def nameservers(tmp_path_factory) -> Iterator[Callable[[str], Program]]:
    """The nameservers of all attacks but those on nameservers, by kind of `access`: a start takes a second, and who leaves one leaves nothing."""
    makers = {"open": _open_nameserver, "guarded": guarded_nameserver}
    with ExitStack() as stack:

        @cache
        def of(kind: str) -> Program:
            return stack.enter_context(makers[kind](tmp_path_factory.mktemp(f"{kind}-names")))

        yield of


@pytest.fixture(scope="module")
def nameserver(access, nameservers):
    """One for all attacks but those on itself."""
    return nameservers(access)


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
