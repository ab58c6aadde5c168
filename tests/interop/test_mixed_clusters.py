"""Half of a cluster is Java: their brokers at our nameserver, our broker at theirs, mqadmin at both."""

from collections.abc import Iterator

import pytest

from cometmq import Admin, Message, Producer
from tests.interop import admin_jvm, clients, reference
from tests.interop.conftest import Cluster
from tests.interop.ours import Box, new_topic, pushed
from tests.support import processes
from tests.support.processes import Program, wait_until
from tests.support.programs import until_killed

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]
SOME_SCENARIOS = ["send_sync", "push_concurrent_200", "admin_delete_topic", "admin_kv_config"]


@pytest.fixture
def our_nameserver(tmp_path) -> Iterator[Program]:
    with processes.nameserver(tmp_path / "nameserver") as names:
        yield names


@pytest.mark.parametrize("compressed", ["false", "true"])
@pytest.mark.parametrize("version", [reference.NEWEST, "5.3.3", "4.9.7"])
def test_a_java_broker_registers_with_our_nameserver(
    tmp_path, our_nameserver, version, compressed
):
    address, settings = our_nameserver.address, {"compressedRegister": compressed}
    served = reference.broker(tmp_path / "broker", address, version=version, settings=settings)
    with until_killed(served):
        reference.wait_registered(address)
        assert served.address.encode() in reference.route_of(address, "TBW102")


def test_the_route_of_a_java_broker_that_died_is_gone_at_once(tmp_path, our_nameserver):
    with until_killed(reference.broker(tmp_path / "broker", our_nameserver.address)):
        reference.wait_registered(our_nameserver.address)
    wait_until(
        lambda: b"broker-a" not in reference.route_of(our_nameserver.address, "TBW102"),
        seconds=10,
        what="the route of the dead broker gone",
    )


@pytest.mark.parametrize("version", [reference.NEWEST, reference.VERSION])
def test_our_broker_registers_with_a_java_nameserver(tmp_path, version):
    settings = clients.BROKER_SETTINGS
    nameserver = reference.nameserver(tmp_path / "nameserver", version=version)
    with until_killed(nameserver) as names:
        with processes.broker(tmp_path / "broker", names.address, settings=settings):
            reference.wait_registered(names.address)
            results = clients.run_scenarios(names.address, SOME_SCENARIOS, client=version)
            assert {name: result for name, result in results.items() if not result.passed} == {}
            assert set(results) == set(SOME_SCENARIOS)
        wait_until(
            lambda: b"broker-a" not in reference.route_of(names.address, "TBW102"),
            seconds=10,
            what="our broker unregistered from the Java nameserver",
        )


@pytest.fixture
def admin(tmp_path, our_cluster: Cluster):
    def ask(*arguments: str) -> str:
        return admin_jvm.mqadmin(tmp_path, our_cluster.nameserver.address, *arguments)

    return ask


def test_mqadmin_lets_expired_files_and_unused_queues_go(admin):
    assert "success" in admin("deleteExpiredCommitLog", "-c", "DefaultCluster")
    assert "success" in admin("cleanUnusedTopic", "-c", "DefaultCluster")
    assert "success" in admin("cleanExpiredCQ", "-c", "DefaultCluster")


def test_mqadmin_tells_what_was_put_and_handed_out(admin, our_cluster):
    names = our_cluster.nameserver.address
    topic, box = new_topic(names, queues=1), Box()
    group = f"of_{topic}"

    def said() -> list[str]:
        lines = admin("statsAll", "-t", topic).splitlines()
        return next(line for line in lines if line.startswith(topic)).split()

    with pushed(names, group, box, topic), Producer(names) as producer, Admin(names) as asks:
        producer.send(Message(topic, b"0"))
        wait_until(
            lambda: set(asks.offsets.committed(group, topic).values()) == {1},
            seconds=60,
            what="the group's offset",
        )
        wait_until(
            lambda: (
                "producer group (PYTHON_PRODUCER) instance : clientId="
                in admin("producer", "-b", our_cluster.broker.address)
            ),
            seconds=60,
            what="the producer in mqadmin's list",
        )
        assert said()[-2:] == ["1", "1"]
        producer.send_many([Message(topic, b"%d" % number) for number in range(1, 8)])
        wait_until(lambda: said()[-2:] == ["8", "8"], seconds=60, what="8 put and handed out")
