"""The image and the cluster of deploy/compose, without Docker: the steps of the Dockerfile in a clean Debian, then its programs.

The image is made once and kept in .cache/image. Each service of compose.yml that has it is a container with a network of
its own, a root file system that cannot be written, and the settings that compose.yml gives it.
"""

import json
import re
import sys
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.support.containers import Bridge, Container, needs
from tests.support.image_builder import Image, build
from tests.support.processes import wait_until
from tests.support.programs import run_program

pytestmark = pytest.mark.timeout(
    900
)  # The first build downloads Debian and compiles the kernel.

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "deploy/compose/compose.yml"
VALUES = {"COMETMQ_PASSWORD": "secret0admin", "COMETMQ_CLUSTER_SECRET": "secret0cluster"}
PORTS = {"nameserver": 9876, "dashboard": 8082}
ADMIN = {"COMETMQ_ACCESS_KEY": "admin", "COMETMQ_SECRET_KEY": VALUES["COMETMQ_PASSWORD"]}


@pytest.fixture(scope="module")
def image() -> Image:
    needs("debootstrap", "unshare", "chroot", "ip", "nsenter")
    return build(ROOT / "deploy/docker/Dockerfile", context=ROOT, cache=ROOT / ".cache/image")


@pytest.fixture(scope="module")
def cluster(image, tmp_path_factory):
    """The services of compose.yml that have our image, by name, all of them running."""
    folder = tmp_path_factory.mktemp("compose")
    with Bridge(folder) as bridge:
        values = {**VALUES, "GRAFANA_PASSWORD": "x", "COMETMQ_SUBNET": bridge.subnet}
        services = yaml.safe_load(filled(COMPOSE.read_text(), values))["services"]
        ours = {
            name: each
            for name, each in services.items()
            if each["image"].startswith("cometmq:")
        }
        for name in ours:
            bridge.add(name)
        running: dict[str, Container] = {}
        try:
            for name in sorted(ours, key=lambda each: len(ours[each].get("depends_on", ()))):
                environment = ours[name].get("environment", {})
                role = ours[name]["command"][0]
                port = int(environment.get("COMETMQ_LISTEN_PORT") or PORTS[role])
                running[name] = bridge.container(
                    image, name, ours[name]["command"], port=port, env=environment
                )
                running[name].start()
            yield running
        finally:
            for one in running.values():
                if one.process is not None:
                    one.kill()


def filled(text: str, values: dict[str, str]) -> str:
    """A file of compose with the variables of .env: ${NAME}, ${NAME:-default}, ${NAME:?what to do}."""

    def value(found: re.Match[str]) -> str:
        name, sign, rest = found[1], found[2], found[3]
        assert name in values or sign == ":-", f"{name} has no value: {rest}"
        return values.get(name) or rest

    return re.sub(r"\$\{(\w+)(?:(:[-?])([^}]*))?\}", value, text)


def healthy(one: Container) -> bool:
    return one.health().returncode == 0


def output(one: Container, *words: str) -> str:
    done = one.run(
        ["env", *(f"{key}={value}" for key, value in ADMIN.items()), "cometmq", *words]
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def test_every_service_becomes_healthy_and_listens_beyond_loopback(cluster):
    for name, one in cluster.items():
        wait_until(partial(healthy, one), seconds=60, what=f"{name}: {one.last_lines()}")
        # It has accepted a connection from another machine before, or it would not have started.
        assert one.host != "127.0.0.1"
    for name in ("nameserver-1", "broker-a"):
        said = cluster[name].log.read_text().lower()
        assert "this is a docker container (/.dockerenv) with a network of its own" in said
    assert f"{cluster['broker-b'].ip}:10931]" in cluster["broker-b"].log.read_text()


def test_the_root_is_read_only_and_the_program_has_no_rights(cluster):
    broker = cluster["broker-a"]
    assert broker.run(["touch", "/opt/cometmq/x"]).returncode != 0
    status = Path(f"/proc/{broker.first}/status").read_text()
    assert re.search(r"^Uid:\s+10001\s+10001\s+10001\s+10001$", status, re.MULTILINE)
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    assert re.search(r"^CapBnd:\s+0+$", status, re.MULTILINE)
    words = Path(f"/proc/{broker.first}/cmdline").read_bytes().split(b"\0")
    assert b"/opt/cometmq/bin/cometmq" in words  # It is process 1 itself, without a shell.


def test_unsigned_requests_are_refused(cluster):
    refused = cluster["dashboard"].run(
        [
            "env",
            "-u",
            "COMETMQ_ACCESS_KEY",
            "-u",
            "COMETMQ_SECRET_KEY",
            "cometmq",
            "topic",
            "list",
        ]
    )
    assert refused.returncode != 0, refused.stdout


def test_messages_outlive_a_stop_and_a_new_container(cluster):
    client = cluster["dashboard"]
    for text in ("first", "second"):
        output(client, "send", "greetings", text)
    for name in ("broker-a", "broker-b"):
        one = cluster[name]
        assert one.stop() == 0, one.last_lines()
        assert (one.data / "store/commitlog").is_dir()
        # The mark that RocketMQ's programs and ours remove at the end of a clean stop.
        assert not (one.data / "store/abort").exists()
        one.start()
    wait_until(
        lambda: healthy(cluster["broker-a"]) and healthy(cluster["broker-b"]),
        seconds=30,
        what="both brokers",
    )
    consume = ("tail", "greetings", "--from", "earliest", "--limit", "2", "--json")
    lines = output(client, *consume).splitlines()
    assert sorted(json.loads(line)["body"] for line in lines) == ["first", "second"]


def test_the_slave_copies_its_master_by_its_name_in_the_network(cluster):
    one = cluster["broker-a-slave"]
    url = "http://127.0.0.1:5557/readyz"
    code = f"import urllib.request as r; print(r.urlopen('{url}').read().decode())"

    def ready() -> str:
        return one.run(["python", "-c", code]).stdout

    wait_until(lambda: "it copies from broker-a:10912" in ready(), seconds=30, what=ready())


def test_the_dashboard_is_alive_for_whoever_asks_and_serves_its_own_host_only(cluster):
    address = f"http://{cluster['dashboard'].ip}:8082"
    with urllib.request.urlopen(f"{address}/healthz", timeout=10) as page:
        assert page.read() == b"ok: the dashboard runs\n"
    with pytest.raises(urllib.error.HTTPError, match="421"):
        urllib.request.urlopen(f"{address}/login", timeout=10)
    asked = urllib.request.Request(f"{address}/login", headers={"Host": "localhost:8082"})
    with urllib.request.urlopen(asked, timeout=10) as page:
        assert b"Log in" in page.read()


def test_all_stop_in_order(cluster):
    for name in (
        "dashboard",
        "broker-a-slave",
        "broker-b",
        "broker-a",
        "nameserver-2",
        "nameserver-1",
    ):
        began = time.monotonic()
        assert cluster[name].stop() == 0, cluster[name].last_lines()
        assert time.monotonic() - began < 20


def test_the_health_check_of_a_container_without_a_program_fails():
    check = ROOT / "deploy/docker/healthcheck.py"
    alone = ["unshare", "--net", "sh", "-euc", 'ip link set lo up; exec "$@"', "sh"]
    done = run_program(*alone, sys.executable, check, status=1)
    assert done.stdout == ""
    assert "no program listens" in done.stderr
