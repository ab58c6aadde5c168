"""ACL 1.0 at Java's 4.9.7: our clients sign there, and the same table of rights is asked of it and of ours, with users that have no right, one, or many.

Every difference stands in docs/compatibility.md ("What access control asks about (ACL 1.0)"), and no other.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq import (
    Admin,
    ClientSettings,
    Credentials,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullConsumerSettings,
)
from cometmq.model.errors import CometError
from tests.interop import asked_rights, reference
from tests.interop.ours import Box, pushed
from tests.support.accounts import ADMIN, CANARY, account, guarded_cluster, write_accounts
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

CUSTOMER = Credentials("customer", f"{CANARY}-customer")
NOBODY = Credentials("nobody-special", f"{CANARY}-nobody")
# May send to, and consume, whatever there is; and is no administrator.
EVERYBODY = Credentials("everybodys", f"{CANARY}-everybody")
ACCOUNTS: tuple[dict[str, object], ...] = (
    account(
        CUSTOMER, topicPerms=["orders=PUB|SUB"], groupPerms=["readers=SUB"],
    ),
    account(NOBODY),
    account(EVERYBODY, defaultTopicPerm="PUB|SUB", defaultGroupPerm="PUB|SUB"),
)  # fmt: skip


# What Java asks any right for; it lets everybody do the rest whose signature is right.
ASKED_AT_JAVA = {10, 11, 12, 15, 17, 25, 34, 35, 36, 38, 200, 207, 215, 310}
# What needs an admin account there, and what needs one here beside that.
FOR_ADMINS_AT_JAVA = {17, 25, 200, 207, 215}
FOR_ADMINS_HERE = {
    21, 26, 28, 43, 45, 201, 204, 222, 305, 306, 309, 314, 315, 316, 317, 323, 328, 329,
}  # fmt: skip
# Users with exactly one right, or the two that a consumer needs: what each passes at both, of what Java asks about.
ONE_RIGHT: dict[str, tuple[dict[str, object], set[int]]] = {
    "topics-pub": ({"defaultTopicPerm": "PUB"}, {10, 310}),
    "topics-sub": ({"defaultTopicPerm": "SUB"}, {12}),
    "groups-pub": ({"defaultGroupPerm": "PUB"}, set()),
    "groups-sub": ({"defaultGroupPerm": "SUB"}, {35, 36, 38}),
    "one-topic-pub": ({"topicPerms": ["Somebodys=PUB"]}, {10, 310}),
    "one-group-sub": ({"groupPerms": ["somebodys=SUB"]}, {35, 36, 38}),
    "other-topic": ({"topicPerms": ["Others=PUB|SUB"]}, set()),
    "both-sub": (
        {"defaultTopicPerm": "SUB", "defaultGroupPerm": "SUB"}, {11, 12, 15, 34, 35, 36, 38},
    ),
}  # fmt: skip
# The same of what Java lets everybody do, and we do not.
_READS, _OF_GROUPS = {29, 30, 31, 32, 202, 300}, {203, 307}
_PUB_HERE = {37, 320, 324, 325} | _READS
_READS |= {33}  # Which gives bodies: not to those who may only send.
OPEN_HERE = {
    "topics-pub": _PUB_HERE,
    "topics-sub": _READS,
    "groups-pub": _OF_GROUPS,
    "groups-sub": _OF_GROUPS,
    "one-topic-pub": _PUB_HERE,
    "one-group-sub": _OF_GROUPS,
    "other-topic": set(),
    "both-sub": _READS | _OF_GROUPS | {14, 41, 42, 46, 208, 223, 303, 308, 321},
}
HOLDERS = {name: Credentials(name, f"{CANARY}-{name}") for name in ONE_RIGHT}
ACCOUNTS += tuple(account(HOLDERS[name], **held) for name, (held, _) in ONE_RIGHT.items())


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Nameserver and broker of Java's, with these accounts: the addresses of both."""
    folder: Path = tmp_path_factory.mktemp("acl-java")
    write_accounts(
        folder / "broker/home/conf/plain_acl.yml", account(ADMIN, admin=True), *ACCOUNTS
    )
    names = reference.nameserver(folder / "nameserver")
    broker = reference.broker(
        folder / "broker", names.address, version="4.9.7", settings={"aclEnable": "true"}
    )
    with reference.served(names, broker):
        make_topics(names.address)
        yield names.address, broker.address


def make_topics(names: str) -> None:
    with Admin(names, settings=ClientSettings(credentials=ADMIN)) as admin:
        for topic in ("orders", "secret"):
            admin.topics.create(topic, queues=1)
        made = {"orders", "secret"}
        wait_until(lambda: made <= set(admin.topics.list()), seconds=30, what="both topics")


def test_our_clients_sign_at_a_java_broker(java):
    """What is refused there has a code and words of its own."""
    names, _ = java
    limits = ProducerSettings(credentials=CUSTOMER, retries=0)
    with Producer(names, group="senders", settings=limits) as producer:
        sent = [producer.send(Message("orders", b"ours")) for _ in range(3)]
        with pytest.raises(CometError, match="secret"):
            producer.send(Message("secret", b"x"))
    settings = PullConsumerSettings(credentials=CUSTOMER)
    with PullConsumer(names, group="readers", settings=settings) as consumer:
        got = consumer.fetch(sent[0].queue, 0).messages
    assert [each.body for each in got] == [b"ours"] * 3
    box = Box()
    with pushed(names, "readers", box, "orders", credentials=CUSTOMER):
        box.wait(3)
    assert box.bodies == [b"ours"] * 3


def test_a_wrong_secret_is_refused_and_so_is_a_group_that_is_not_ours(java):
    names, _ = java
    wrong = ProducerSettings(credentials=Credentials("customer", "wrong-secret"), retries=0)
    with (
        Producer(names, group="senders", settings=wrong) as producer,
        pytest.raises(CometError, match="signature"),
    ):
        producer.send(Message("orders", b"x"))
    settings = PullConsumerSettings(credentials=CUSTOMER)
    with PullConsumer(names, group="others", settings=settings) as consumer:
        [queue] = consumer.queues("orders")
        with pytest.raises(CometError, match="others"):
            consumer.fetch(queue, 0)


def test_an_administrators_request_needs_an_admin_account(java):
    names, _ = java
    with (
        Admin(names, settings=ClientSettings(credentials=CUSTOMER)) as admin,
        pytest.raises(CometError, match="admin permission"),
    ):
        admin.topics.create("more", queues=1)


def test_the_table_of_rights_is_javas_but_for_what_it_leaves_open(java, tmp_path):
    _, address = java
    nobody = asked_rights.answers(address, NOBODY)
    everybody = asked_rights.answers(address, EVERYBODY)
    held = asked_rights.let_in(address, HOLDERS, nobody)
    with guarded_cluster(tmp_path, *ACCOUNTS) as (_, broker):
        ours = {
            user: asked_rights.answers(broker.address, user, of=nobody)
            for user in (NOBODY, EVERYBODY)
        }
        held_here = asked_rights.let_in(broker.address, HOLDERS, nobody)
    # Who has no right gets nothing of us, and of Java whatever it has no rule for.
    assert asked_rights.refused(ours[NOBODY]) == nobody.keys()
    assert asked_rights.refused(nobody) == ASKED_AT_JAVA
    # Who may send and consume everything is no administrator.
    assert asked_rights.refused(everybody) == FOR_ADMINS_AT_JAVA
    assert asked_rights.refused(ours[EVERYBODY]) == FOR_ADMINS_AT_JAVA | FOR_ADMINS_HERE
    # Who has exactly one right passes with the same codes at both, of those that Java asks about.
    wanted = {name: codes for name, (_, codes) in ONE_RIGHT.items()}
    assert {name: codes & ASKED_AT_JAVA for name, codes in held.items()} == wanted
    assert {name: codes & ASKED_AT_JAVA for name, codes in held_here.items()} == wanted
    assert {name: codes - ASKED_AT_JAVA for name, codes in held_here.items()} == OPEN_HERE
    left_open = nobody.keys() - ASKED_AT_JAVA
    assert all(left_open <= codes for codes in held.values())
