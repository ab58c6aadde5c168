"""gRPC clients see the same at a Java proxy 5.3.3 and at ours: official clients, and calls whose answers are recorded.

The scenes of the clients are in `grpc_clients`. A client plays all of its scenes at once, at either server; each is one test here, and one
that does not report has failed.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cometmq import Admin
from cometmq.model.group import GroupConfig
from tests.interop import reference
from tests.interop.clients import Result, results_in
from tests.interop.record_grpc import RECORDED, Proxied, java_proxied
from tests.support import grpc_calls
from tests.support.processes import free_port
from tests.support.programs import run_program, small_cluster

SCENES = ("normal", "fifo", "delay", "transaction", "change", "push", "dead")
TYPES = {
    "fifo": "FIFO", "push_in_order": "FIFO", "delay": "DELAY", "recall": "DELAY", "transaction": "TRANSACTION",
}  # fmt: skip
OLDEST_JAVA = "5.0.7"
# What each client can do: the recall came later.
CLIENTS: dict[str, Sequence[str]] = {
    "go": SCENES,
    f"java-{OLDEST_JAVA}": SCENES,
    "java-5.2.0": (*SCENES, "recall"),
    "node": (*SCENES, "recall"),
    "python": (*SCENES, "recall", "push_in_order"),
}
SERVERS = ("java", "ours")
BUILD_SECONDS_MAX = 300  # Modules, jars and packages are fetched the first time.
RUN_SECONDS_MAX = 100
AT_A_TIME = 3

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(2 * BUILD_SECONDS_MAX)]
FOLDER = reference.HERE / "grpc_clients"
PYTHON_SCENES = reference.HERE.parent / "e2e" / "grpc_scenes.py"
BUILT = reference.CACHE / "interop-grpc"


@pytest.fixture(scope="module")
def servers(tmp_path_factory) -> Iterator[dict[str, Proxied]]:
    """A Java broker with its proxy, and our broker with its gRPC port."""
    folder, port = tmp_path_factory.mktemp("grpc"), free_port()
    settings = grpc_calls.BROKER_SETTINGS
    with (
        java_proxied(folder / "java", settings) as java,
        small_cluster(folder / "ours", grpcServerPort=port, **settings) as (names, _),
    ):
        yield {"java": java, "ours": Proxied(names.address, f"127.0.0.1:{port}")}


# --- calls


def test_a_java_proxy_answers_as_it_was_recorded(servers):
    grpc_calls.prepare(servers["java"].nameserver)
    answers = grpc_calls.answers_of(servers["java"].grpc)
    recorded = json.loads(RECORDED.read_text())
    assert {name: said for name, said in answers.items() if said != recorded[name]} == {}


# --- clients


def go_client() -> list[Path | str]:
    target = BUILT / "go"
    run_program("go", "build", "-o", target, ".", cwd=FOLDER / "go", seconds=BUILD_SECONDS_MAX)
    return [target]


def java_client(version: str) -> list[Path | str]:
    """What is compiled with the older client runs with the newer."""
    oldest = reference.jars_of("rocketmq-client-java", OLDEST_JAVA)
    source, classes = FOLDER / "java" / "Scenes.java", BUILT / "java"
    if not classes.exists() or classes.stat().st_mtime < source.stat().st_mtime:
        program = (reference.java("javac"), "-nowarn", "-d", classes, "-cp", f"{oldest}/*")
        run_program(*program, source, seconds=BUILD_SECONDS_MAX)
        os.utime(classes)
    jars = reference.jars_of("rocketmq-client-java", version)
    options = ("-Xmx256m", *reference.QUICK_START, "-XX:-UsePerfData")
    return [reference.java(), *options, "-cp", f"{classes}:{jars}/*", "Scenes"]


def node_client() -> list[Path | str]:
    target = BUILT / "node"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "scenes.js"):
        (target / name).write_bytes((FOLDER / "node" / name).read_bytes())
    if not (target / "node_modules").exists():
        run_program("npm", "ci", "--no-audit", cwd=target, seconds=BUILD_SECONDS_MAX)
    return ["node", target / "scenes.js"]


def program_of(client: str) -> list[Path | str]:
    """The command of a client's program, built where that is needed."""
    name, _, version = client.partition("-")
    make: dict[str, Callable[[], list[Path | str]]] = {
        "go": go_client,
        "java": lambda: java_client(version),
        "node": node_client,
        "python": lambda: [sys.executable, PYTHON_SCENES],
    }
    return make[name]()


def prepare(nameserver: str) -> None:
    """Make topics and groups for all scenes of all clients."""
    at_once = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1_000]}}
    with Admin(nameserver) as admin:
        for client, scenes in CLIENTS.items():
            for scene in scenes:
                name = prefix_of(client) + f"_{scene}"
                attributes = {"message.type": TYPES[scene]} if scene in TYPES else {}
                admin.topics.create(name, queues=2, attributes=attributes)
                times = 1 if scene == "dead" else 16
                admin.groups.create(
                    GroupConfig(
                        name,
                        orderly=TYPES.get(scene) == "FIFO",
                        retry_max_times=times,
                        retry_policy=at_once,
                    )
                )


def prefix_of(client: str) -> str:
    """What the names of a client's topics begin with."""
    return client.replace(".", "_")


@pytest.fixture(scope="module")
def reports(servers, tmp_path_factory) -> dict[tuple[str, str], dict[str, Result]]:
    """What each client reported at each server."""
    programs = {client: program_of(client) for client in CLIENTS}
    home = {"HOME": str(tmp_path_factory.mktemp("home"))}  # Clients write their logs there.

    def played(server: str, client: str) -> dict[str, Result]:
        program = (*programs[client], servers[server].grpc, prefix_of(client), *CLIENTS[client])
        done = run_program(*program, seconds=RUN_SECONDS_MAX, status=None, env=home)
        print(done.stderr[-2000:])
        return results_in(done.stdout)

    for place in servers.values():
        prepare(place.nameserver)
    runs = [(server, client) for server in SERVERS for client in CLIENTS]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return dict(zip(runs, pool.map(lambda run: played(*run), runs), strict=True))


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("client", "scene"),
    [(client, scene) for client, scenes in CLIENTS.items() for scene in scenes],
)
def test_a_client_finds_what_it_expects(reports, server, client, scene):
    result = reports[server, client].get(scene)
    assert result is not None, f"{scene} did not report"
    assert result.passed, result.detail


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", [name for name in CLIENTS if "dead" in CLIENTS[name]])
def test_what_a_client_failed_too_often_is_a_dead_letter(reports, servers, server, client):
    assert reports[server, client]["dead"].passed
    with Admin(servers[server].nameserver) as admin:
        assert f"%DLQ%{prefix_of(client)}_dead" in set(admin.topics.list())
