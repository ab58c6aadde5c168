"""Our nameserver under `mqadmin` and a Java broker; our registrar at a Java nameserver."""

from collections.abc import Callable, Iterator

import pytest

from cometmq.broker.registration.registrar import Registrar
from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.codec.headers.nameserver import RegisterBrokerResponse
from cometmq.model.data_version import DataVersion
from cometmq.model.topic import TopicConfig
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from cometmq.steps.on_loop import Machines
from tests.interop import admin_jvm, reference
from tests.support import processes
from tests.support.frames import ask
from tests.support.no_log import system_world
from tests.support.processes import Program, wait_until
from tests.support.programs import until_killed
from tests.support.steps import run

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

Admin = Callable[..., str]


@pytest.fixture(scope="module")
def java_nameserver(tmp_path_factory) -> Iterator[Program]:
    with until_killed(reference.nameserver(tmp_path_factory.mktemp("java-names"))) as program:
        yield program


@pytest.fixture(scope="module")
def our_nameserver(tmp_path_factory) -> Iterator[Program]:
    with processes.nameserver(tmp_path_factory.mktemp("our-names")) as program:
        yield program


@pytest.fixture(scope="module")
def java_broker(tmp_path_factory, our_nameserver) -> Iterator[Program]:
    """A Java 5.3.3 broker at our nameserver."""
    folder = tmp_path_factory.mktemp("broker")
    with until_killed(reference.broker(folder, our_nameserver.address)) as program:
        reference.wait_registered(our_nameserver.address)
        yield program


@pytest.fixture
def admin(tmp_path, our_nameserver) -> Admin:
    def run(*arguments: str) -> str:
        return admin_jvm.mqadmin(tmp_path, our_nameserver.address, *arguments)

    return run


def write_perm(nameserver: Program) -> bool:
    route = reference.route_of(nameserver.address, "SELF_TEST_TOPIC")
    return b'"perm":6' in route


def test_mqadmin_has_a_new_jvm_behind_one_that_failed(admin):
    usage = admin("topicRoute", "-h")
    assert "usage: mqadmin topicRoute" in usage
    admin_jvm._session(reference.VERSION)._program.kill()
    with pytest.raises((AssertionError, BrokenPipeError)):
        admin("topicRoute", "-h")
    assert admin("topicRoute", "-h") == usage


def test_mqadmin_sees_a_java_broker_at_our_nameserver(admin, java_broker):
    assert {"SELF_TEST_TOPIC", "broker-a"} <= set(admin("topicList").split())
    assert java_broker.address in admin("topicRoute", "-t", "TBW102")
    (line,) = [row for row in admin("clusterList").splitlines() if "broker-a" in row]
    assert ["DefaultCluster", "broker-a", "0", java_broker.address] == line.split()[:4]


def test_mqadmin_creates_and_deletes_a_topic_and_our_nameserver_follows(
    admin, java_broker, our_nameserver
):
    def is_routed() -> bool:
        return ask(our_nameserver.address, 105, {"topic": "Made"})[0]["code"] == 0

    admin("updateTopic", "-c", "DefaultCluster", "-t", "Made")
    wait_until(is_routed, seconds=10, what="the route of the new topic")
    admin("deleteTopic", "-c", "DefaultCluster", "-t", "Made")
    wait_until(lambda: not is_routed(), seconds=10, what="the route gone")


def test_mqadmin_wipes_and_adds_write_permission(admin, java_broker, our_nameserver):
    def is_wiped() -> bool:
        assert "wipe write perm of broker[broker-a]" in admin("wipeWritePerm", "-b", "broker-a")
        return not write_perm(our_nameserver)

    # A broker that registers changed topics gives its own permissions anew, at Java's nameserver, too; the
    # one here may be about to, for a topic that was made before.
    wait_until(is_wiped, seconds=60, what="write permission gone")
    assert "add write perm of broker[broker-a]" in admin("addWritePerm", "-b", "broker-a")
    assert write_perm(our_nameserver)


def test_mqadmin_keeps_key_value_configuration(admin, our_nameserver):
    key = {"namespace": "n", "key": "k"}
    admin("updateKvConfig", "-s", "n", "-k", "k", "-v", "v")
    assert ask(our_nameserver.address, 101, key)[0]["extFields"] == {"value": "v"}
    admin("deleteKvConfig", "-s", "n", "-k", "k")
    assert ask(our_nameserver.address, 101, key)[0]["code"] == 22


def test_mqadmin_sets_an_order_configuration(admin, our_nameserver):
    admin("updateOrderConf", "-t", "T", "-m", "put", "-v", "broker-a:4")
    assert "broker-a:4" in admin("updateOrderConf", "-t", "T", "-m", "get")
    admin("updateOrderConf", "-t", "T", "-m", "delete")
    assert "broker-a:4" not in admin("updateOrderConf", "-t", "T", "-m", "get")


def test_mqadmin_reads_and_changes_the_settings_that_may_be_changed(admin):
    assert "waitSecondsForService" in admin("getNamesrvConfig")
    assert "success" in admin("updateNamesrvConfig", "-k", "waitSecondsForService", "-v", "7")
    (line,) = [row for row in admin("getNamesrvConfig").splitlines() if "waitSeconds" in row]
    assert line.split()[-1] == "7"
    assert "black list" in admin("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/tmp/x")


@pytest.mark.parametrize("is_compressed", [False, True])
async def test_our_registrar_keeps_a_java_nameserver_told(java_nameserver, is_compressed):
    table = TopicTable(DataVersion(1, 1), {name: TopicConfig(name) for name in ("A", "B")})
    tables = [table]
    channels = Channels(SystemClock())
    world = system_world()
    made = Registrar(
        BrokerSettings(
            broker_name="broker-r",
            nameservers=java_nameserver.address,
            is_registration_compressed=is_compressed,
        ),
        "127.0.0.1:10911",
        lambda: tables[-1],
        ha_address="127.0.0.1:10912",
        ask=NameserverChannels(channels),
        timers=world,
    )
    machines = Machines(world, "registrar")
    await machines.run(made.start(machines.keep))
    route = reference.route_of(java_nameserver.address, "A")
    assert b'"brokerAddrs":{"0":"127.0.0.1:10911"}' in route
    tables.append(TopicTable(DataVersion(2, 2), {**table.topics, "C": TopicConfig("C")}))
    await run(made.register())
    assert b"broker-r" in reference.route_of(java_nameserver.address, "C")
    assert made.master == RegisterBrokerResponse()
    await machines.close()
    await machines.run(made.leave())
    await channels.close()
    wait_until(
        lambda: ask(java_nameserver.address, 105, {"topic": "A"})[0]["code"] == 17,
        seconds=10,
        what="the broker gone from the Java nameserver",
    )
