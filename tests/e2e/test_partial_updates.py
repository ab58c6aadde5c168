"""Updates of topics and groups: what an update does not name stays as it is, at each broker."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cometmq import Admin
from cometmq.admin import GroupConfig, TopicConfig
from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.topic import CreateTopic
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.loop import run as run_loop
from tests.dashboard.web import Served, Visitor, text_of
from tests.support import processes
from tests.support.command_line import run

BROKERS = ("broker-a", "broker-b")


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("updates")
    with (
        processes.nameserver(folder / "nameserver") as names,
        processes.broker(folder / "a", names.address, settings={"brokerName": "broker-a"}),
        processes.broker(folder / "b", names.address, settings={"brokerName": "broker-b"}),
        Admin(names.address) as admin,
    ):
        processes.wait_until(
            lambda: len(admin.brokers.cluster().brokers) == 2, seconds=20, what="both brokers"
        )
        yield names.address


@pytest.fixture(scope="module")
def admin(nameserver: str) -> Iterator[Admin]:
    with Admin(nameserver) as made:
        yield made


@pytest.fixture(scope="module")
def visitor(nameserver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with Served(tmp_path_factory.mktemp("dashboard"), nameserver) as served:
        yield Visitor(served).log_in()


def make(admin: Admin, nameserver: str, name: str) -> dict[str, TopicConfig]:
    """A topic that differs from a new one in every field, and at each broker; its settings."""

    async def work() -> None:
        instance = ClientInstance(nameserver)
        try:
            masters = await instance.nameserver_api.masters()
            for queues, broker in enumerate(BROKERS, 3):
                header = CreateTopic(
                    name, queues + 2, queues, 4, topic_filter_type="MULTI_TAG",
                    topic_sys_flag=1, order=True, attributes="+message.type=DELAY",
                )  # fmt: skip
                command = Command(
                    RequestCode.UPDATE_AND_CREATE_TOPIC, fields=encode_fields(header)
                )
                await instance.ask(masters[broker], command)
        finally:
            await instance.close()

    run_loop(work())
    configs = admin.topics.configs(name)
    assert {broker: each.write_queues for broker, each in configs.items()} == {
        "broker-a": 3,
        "broker-b": 4,
    }
    return configs


def test_more_queues_reset_nothing_else_of_a_topic(admin: Admin, nameserver: str) -> None:
    before = make(admin, nameserver, "orders")
    done = run("topic", "set", "orders", "--queues", "9", nameserver=nameserver)
    assert b"orders has 9 queues (permission: read) on each broker" in done.stdout + done.stderr
    assert admin.topics.configs("orders") == {
        broker: replace(each, read_queues=9, write_queues=9) for broker, each in before.items()
    }


def test_a_topic_that_is_there_is_not_changed_where_nothing_is_named(
    admin: Admin, nameserver: str
) -> None:
    before = make(admin, nameserver, "same")
    done = run("topic", "set", "same", "--no-write", nameserver=nameserver)
    assert (
        b"same has 3 queues to write and 5 to read (permission: read) on broker-a, "
        b"4 queues to write and 6 to read (permission: read) on broker-b" in done.stderr
    )
    for arguments in (("set", "same"), ("create", "same"), ("create", "same", "--queues", "9")):
        assert run("topic", *arguments, nameserver=nameserver).returncode == 2
    assert admin.topics.configs("same") == before


def test_a_permission_resets_nothing_else_of_a_topic(admin: Admin, nameserver: str) -> None:
    before = make(admin, nameserver, "open")
    run("topic", "set", "open", "--write", nameserver=nameserver)
    wanted = {broker: replace(each, perm=6) for broker, each in before.items()}
    assert admin.topics.configs("open") == wanted
    admin.topics.create("open", perm=2)
    wanted = {broker: replace(each, perm=2) for broker, each in before.items()}
    assert admin.topics.configs("open") == wanted


def test_queues_to_read_and_attributes_change_alone(admin: Admin, nameserver: str) -> None:
    before = make(admin, nameserver, "alone")
    admin.topics.create("alone", read_queues=16)
    wanted = {broker: replace(each, read_queues=16) for broker, each in before.items()}
    assert admin.topics.configs("alone") == wanted
    admin.topics.create("alone", attributes={"queue.type": "SimpleCQ"})
    attributes = {"message.type": "DELAY", "queue.type": "SimpleCQ"}
    wanted = {broker: replace(each, attributes=attributes) for broker, each in wanted.items()}
    assert admin.topics.configs("alone") == wanted


def test_a_form_changes_what_was_changed_in_it_at_brokers_that_differ(
    admin: Admin, nameserver: str, visitor: Visitor
) -> None:
    before = make(admin, nameserver, "formed")
    page = visitor.get("/topic", name="formed").text
    shown: dict[str, Any] = {
        field: re.search(rf'name="{field}"[^>]* value="([^"]*)"', page)[1]  # type: ignore[index]
        for field in ("seen", "read", "write")
    }
    said = visitor.post("/topic/change", name="formed", perm="6", **shown)
    assert "The topic formed is changed" in text_of(said)
    wanted = {broker: replace(each, perm=6) for broker, each in before.items()}
    assert admin.topics.configs("formed") == wanted


def test_a_group_keeps_what_its_form_or_command_does_not_name(
    admin: Admin, nameserver: str, visitor: Visitor
) -> None:
    config = GroupConfig(
        "billing", orderly=True, retry_queues=2, retry_max_times=3, broker_id=1,
        slow_broker_id=2, notify_changes=False, sys_flag=1, consume_timeout_minutes=4,
        attributes={"priority.factor": "7"},
    )  # fmt: skip
    admin.groups.create(config)
    admin.groups.set("billing", {})
    before = admin.groups.configs()["billing"]
    visitor.post("/group/change", name="billing", consume="1", retry_max="5")
    wanted = replace(before, broadcast_enabled=False, retry_max_times=5)
    assert admin.groups.configs()["billing"] == wanted
    run("group", "set", "billing", "--retry-max", "6", nameserver=nameserver)
    assert admin.groups.configs()["billing"] == replace(wanted, retry_max_times=6)
    assert admin.groups.configs()["billing"].attributes == {"priority.factor": "7"}
    admin.groups.set("billing", {"attributes": {"other": "1"}})
    assert admin.groups.configs()["billing"].attributes == {"other": "1"}


def test_a_group_is_created_and_changed_at_one_broker_or_in_one_cluster(
    nameserver: str, admin: Admin
) -> None:
    def group(*arguments: str, status: int = 0) -> str:
        done = run("group", *arguments, nameserver=nameserver)
        assert done.returncode == status, done.stderr.decode()
        return done.stderr.decode()

    def enabled() -> list[bool | None]:
        found = [admin.groups.configs(broker=broker).get("one") for broker in BROKERS]
        return [None if each is None else each.consume_enabled for each in found]

    group("create", "one", "--broker", "broker-b")
    assert enabled() == [None, True]
    assert "group one exists" in group("create", "one", "--broker", "broker-b", status=2)
    group("create", "one", "--broker", "broker-a")
    assert "broker-a" in group("set", "one", "--no-consume", "--broker", "broker-a")
    assert enabled() == [False, True]
    group("set", "one", "--no-consume", "--cluster", "DefaultCluster")
    assert enabled() == [False, False]
    both = ("--cluster", "DefaultCluster", "--broker", "broker-a")
    for command in (("create", "two"), ("set", "one", "--consume")):
        assert "give only one of" in group(*command, *both, status=2)
    group("set", "one", "--consume", "--broker", "none", status=3)
    group("set", "one", "--consume", "--cluster", "none", status=3)
    assert enabled() == [False, False]


def test_a_topic_is_deleted_in_one_cluster(nameserver: str, admin: Admin) -> None:
    admin.topics.create("of_one_cluster", queues=1)
    done = run(
        "topic", "delete", "of_one_cluster", "--yes", "--cluster", "none", nameserver=nameserver
    )
    assert done.returncode == 3, done.stderr.decode()
    assert "of_one_cluster" in admin.topics.list()
    done = run(
        "topic",
        "delete",
        "of_one_cluster",
        "--yes",
        "--cluster",
        "DefaultCluster",
        nameserver=nameserver,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert "of_one_cluster" not in admin.topics.list()
