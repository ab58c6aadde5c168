"""Auth 2.0 at Java's 5.3.3: our clients, tools and TLS there, and the same table of rights asked of it and of ours.

Every difference stands in docs/compatibility.md ("A request without a rule", "Rights of three requests"), and no other.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from cometmq import (
    Admin,
    ClientSettings,
    ConsumeFrom,
    Credentials,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullConsumerSettings,
    SimpleConsumer,
    SimpleConsumerSettings,
    StoredMessage,
    TlsSettings,
)
from cometmq.admin import GroupConfig
from cometmq.model.errors import CometError
from cometmq.model.properties import POP_CK
from tests.attacks.stranger import Stranger
from tests.interop import asked_rights, mqadmin_session, reference
from tests.interop.ours import SECONDS, Box, pushed
from tests.support import certificates
from tests.support.accounts import tools_file
from tests.support.command_line import run
from tests.support.processes import wait_until
from tests.support.programs import small_cluster

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

ADMIN = mqadmin_session.ADMIN
NOBODY = Credentials("nobody-special", "nobody-secret")
CUSTOMER = Credentials("customer", "canary-customer")
# What Java lets every known user do.
OPEN_AT_JAVA = {
    18, 21, 25, 26, 28, 43, 45, 46, 60, 61, 200, 201, 225, 305, 306, 316, 324, 325, 329, 361, 400, 401, 402, 513, 907, 1007,
    2001, 2002, 2003, 2004, 200056, 200151,
}  # fmt: skip
# 16 users with exactly one right, and 3 with two that are asked together.
_KINDS = {
    "Topic": ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List"),
    "Group": ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List"),
    "Cluster": ("Update", "Get"),
}
ONE_RIGHT = {
    f"{kind}-{action}": [(kind, action)]
    for kind, actions in _KINDS.items()
    for action in actions
}
HELD = ONE_RIGHT | {
    f"Both-{action}": [("Topic", action), ("Group", action)]
    for action in ("Sub", "Get", "Update")
}
# What each of them passes with, here and at Java, of what Java asks about; those who are not named: nothing.
PASSED = {
    "Topic-Pub": {10, 37, 310, 320, 370},
    "Topic-Sub": {12},
    "Topic-Create": {17},
    "Topic-Delete": {215},
    "Topic-Get": {12, 29, 30, 31, 32, 33, 202, 300, 351, 354},
    "Group-Sub": {35, 36, 38},
    "Group-Delete": {207},
    "Group-Get": {38, 203, 307, 343, 352},
    "Both-Sub": {11, 12, 14, 15, 34, 35, 36, 38, 41, 42, 200050, 200051, 200052, 200053, 200054},
    "Both-Get": {12, 14, 29, 30, 31, 32, 33, 38, 202, 203, 208, 223, 300, 303, 307, 308, 321, 343, 345, 351, 352, 354, 200055},
    "Both-Update": {15, 222, 314, 353},
    "Cluster-Update": {902, 903, 905, 908, 1008, 3001, 3002, 3003, 3006, 3007, 3008},
    "Cluster-Get": {204, 315, 317, 328, 355, 3004, 3005, 3009, 3010},
}  # fmt: skip
# Whose right passes at Java, and whose here: 309 and 323 find a message by its id, whatever topic the request names; 906 changes nothing here.
OTHERS_AT_JAVA = {"Both-Sub": {309}, "Topic-Update": {323}, "Both-Update": {323}, "Cluster-Update": {906}}  # fmt: skip
OTHERS_HERE = {"Cluster-Update": {309, 323}, "Cluster-Get": {906}}
# Who passes here with what Java lets everybody do.
OPEN_HERE = {
    "Topic-Pub": {324, 325},
    "Topic-Create": {18},
    "Topic-List": {21},
    "Group-Create": {200, 225},
    "Both-Sub": {46, 361, 400, 200151},
    "Cluster-Update": {25, 306, 316, 329, 401, 513, 2001, 2002, 2004, 200056},
    "Cluster-Get": {26, 28, 43, 45, 60, 61, 201, 305, 402, 907, 1007, 2003},
}


class Java:
    """Nameserver and broker of Java's with users and rights, which take plain connections, and TLS of who shows a certificate."""

    def __init__(self, folder: Path) -> None:
        ca = certificates.authority(folder)
        server, server_key = certificates.signed(ca, "server")
        own, own_key = certificates.signed(ca, "own")
        self.tls = TlsSettings(ca_file=str(ca), cert_file=str(own), key_file=str(own_key))
        options = [
            *reference.quick_start(), "-Dtls.test.mode.enable=false", "-Dtls.server.mode=permissive", "-Dtls.config.file=/nowhere",
            "-Dtls.server.need.client.auth=require", "-Dtls.server.authClient=true", f"-Dtls.server.trustCertPath={ca}",
            f"-Dtls.server.certPath={server}", f"-Dtls.server.keyPath={server_key}",
        ]  # fmt: skip
        self.folder = folder
        self.nameserver = reference.nameserver(folder / "names", options=options)
        keys = {**mqadmin_session.broker_settings(), **mqadmin_session.java_providers(folder)}
        self.broker = reference.broker(
            folder / "java",
            self.nameserver.address,
            settings=keys,
            options=options,
        )

    @property
    def names(self) -> str:
        """The nameserver's address."""
        return self.nameserver.address


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    started = Java(tmp_path_factory.mktemp("auth-java"))
    with reference.served(started.nameserver, started.broker):
        yield started


@pytest.fixture(scope="module")
def customer(java: Java) -> Java:
    """The same with topics, groups, and a user who has rights of some of them, all made by ours."""
    with Admin(java.names, settings=ClientSettings(credentials=ADMIN)) as admin:
        made = {"orders-plain", "orders-tls", "secret"}
        for topic in made:
            admin.topics.create(topic, queues=2)
        wait_until(lambda: made <= set(admin.topics.list()), seconds=SECONDS, what="all topics")
        for way in ("plain", "tls"):
            for group in ("pushed", "popped", "received"):
                admin.groups.create(GroupConfig(f"{group}-{way}"))
            admin.topics.set_request_mode(f"orders-{way}", f"popped-{way}", "POP")
    acl(java, "create", CUSTOMER.access_key, stdin=f"{CUSTOMER.secret_key}\n".encode())
    acl(java, "allow", "customer", "Topic:orders*", "Pub", "Sub", "Get")
    for group in ("pulled", "pushed", "popped", "received"):
        acl(java, "allow", "customer", f"Group:{group}*", "Sub", "Get")
    return java


def acl(java: Java, *arguments: str, stdin: bytes = b"") -> bytes:
    """What `cometmq acl ARGUMENTS` prints, signed by the administrator."""
    credentials = tools_file(java.folder / "tools.yml", ADMIN)
    done = run("acl", *arguments, nameserver=java.names, stdin=stdin, credentials=credentials)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_our_tools_show_javas_users_and_policies(customer):
    users = orjson.loads(acl(customer, "list", "--json"))
    assert {"user": "customer", "type": "Normal", "status": "enable", "brokers": ["broker-a:0"]} in users  # fmt: skip
    entries = orjson.loads(acl(customer, "show", "customer", "--json"))
    assert {each["resource"] for each in entries} == {
        "Topic:orders*", "Group:pulled*", "Group:pushed*", "Group:popped*", "Group:received*",
    }  # fmt: skip
    [found] = orjson.loads(acl(customer, "test", "customer", "10", "Topic:orders-1", "--json"))
    assert found["allowed"]
    acl(customer, "allow", "customer", "Topic:gone", "Pub")
    acl(customer, "remove", "customer", "Topic:gone")
    assert b"Topic:gone" not in acl(customer, "show", "customer", "--json")


@pytest.mark.parametrize("way", ["plain", "tls"])
def test_our_clients_do_what_they_may_and_no_more(customer, way):
    how: dict[str, Any] = {
        "credentials": CUSTOMER,
        "tls": customer.tls if way == "tls" else None,
    }
    send_all(customer.names, f"orders-{way}", how)
    wanted = [b"one"] * 4 + [b"three"] + [b"two"] * 2
    check_pulls(customer.names, way, wanted, how)
    check_receives(customer.names, way, wanted, how)
    check_pushes(customer.names, way, wanted, how)
    with (
        Admin(customer.names, settings=ClientSettings(**how)) as admin,
        pytest.raises(CometError, match="no permission"),
    ):
        admin.topics.create("more", queues=1)


def send_all(names: str, topic: str, how: dict[str, Any]) -> None:
    """One by one, a batch, a transaction; what there is no right for is refused."""
    settings = ProducerSettings(retries=0, **how)
    with Producer(names, group="senders", settings=settings) as producer:
        for _ in range(4):
            producer.send(Message(topic, b"one"))
        producer.send_batch([Message(topic, b"two"), Message(topic, b"two")])
        with producer.transaction(Message(topic, b"three")) as transaction:
            transaction.commit()
        for refused in ([Message("secret", b"x")], [Message("secret", b"y")] * 2):
            send = producer.send_batch if len(refused) > 1 else lambda one: producer.send(*one)
            with pytest.raises(CometError, match="no permission"):
                send(refused)


def check_pulls(names: str, way: str, wanted: list[bytes], how: dict[str, Any]) -> None:
    """All of them are pulled, by a group with the right; by another one nothing."""

    def pulled() -> list[bytes]:
        found = [consumer.fetch(queue, 0).messages for queue in queues]
        return sorted(message.body for each in found for message in each)

    settings = PullConsumerSettings(**how)
    with PullConsumer(names, group=f"pulled-{way}", settings=settings) as consumer:
        queues = consumer.queues(f"orders-{way}")
        wait_until(lambda: pulled() == wanted, seconds=SECONDS, what="all that was sent")
    with (
        PullConsumer(names, group="strangers", settings=settings) as consumer,
        pytest.raises(CometError, match="no permission"),
    ):
        consumer.fetch(queues[0], 0)


def check_receives(names: str, way: str, wanted: list[bytes], how: dict[str, Any]) -> None:
    """All of them are popped and acknowledged by a simple consumer."""
    settings = SimpleConsumerSettings(consume_from=ConsumeFrom.FIRST, **how)
    got: list[StoredMessage] = []
    with SimpleConsumer(
        names, group=f"received-{way}", subscriptions=[f"orders-{way}"], settings=settings
    ) as consumer:

        def received() -> bool:
            got.extend(consumer.receive(32, invisible_ms=60_000, wait_ms=1_000))
            return len(got) >= len(wanted)

        wait_until(received, seconds=SECONDS, what="all that was sent")
        consumer.ack(got)
    assert sorted(message.body for message in got) == wanted


def check_pushes(names: str, way: str, wanted: list[bytes], how: dict[str, Any]) -> None:
    """All of them are pushed to a consumer that pulls, and to one that pops."""
    for group, pops in ((f"pushed-{way}", False), (f"popped-{way}", True)):
        box = Box()
        with pushed(names, group, box, f"orders-{way}", client_rebalance=not pops, **how):
            box.wait(len(wanted))
        assert box.bodies == wanted
        assert all((POP_CK in message.properties) == pops for message in box.messages)


def make_users(address: str) -> dict[str, Credentials]:
    """A user without any right, and those with exactly one."""
    users = {name: Credentials(name, f"secret-of-{name}") for name in HELD}
    with Stranger(address) as stranger:

        def tell(code: int, body: object, **fields: str) -> None:
            content = json.dumps(body).encode()
            assert stranger.ask_as(ADMIN, code, fields, content).code == 0

        for user in (NOBODY, *users.values()):
            name = user.access_key
            tell(3001, {"username": name, "password": user.secret_key, "userType": "Normal"}, username=name)  # fmt: skip
        for name, held in HELD.items():
            entries = [
                {"resource": f"{kind}:*", "actions": [action], "decision": "Allow"}
                for kind, action in held
            ]
            subject = f"User:{name}"
            policies = [{"policyType": "Custom", "entries": entries}]
            tell(3006, {"subject": subject, "policies": policies}, subject=subject)
    return users


def test_the_table_of_rights_is_javas_but_for_what_it_leaves_open(java, tmp_path):
    users = make_users(java.broker.address)
    theirs = asked_rights.answers(java.broker.address, NOBODY)
    at_java = asked_rights.let_in(java.broker.address, users, theirs)
    settings = mqadmin_session.broker_settings()
    with small_cluster(tmp_path, **settings) as (_, broker):
        make_users(broker.address)
        ours = asked_rights.answers(broker.address, NOBODY)
        here = asked_rights.let_in(broker.address, users, theirs)
    assert asked_rights.refused(ours) == ours.keys()
    assert theirs.keys() - asked_rights.refused(theirs) == OPEN_AT_JAVA
    for name in HELD:
        passed = PASSED.get(name, set())
        assert at_java[name] - OPEN_AT_JAVA == passed | OTHERS_AT_JAVA.get(name, set()), name
        assert here[name] - OPEN_AT_JAVA == passed | OTHERS_HERE.get(name, set()), name
        assert here[name] & OPEN_AT_JAVA == OPEN_HERE.get(name, set()), name
        assert at_java[name] >= OPEN_AT_JAVA, name
    # Each code is passed by one of them, at Java and here.
    for let_in in (at_java, here):
        assert set().union(*let_in.values()) == theirs.keys()
