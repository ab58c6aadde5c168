"""What waits in a group that elects its leader when the leader is killed: it goes on where the log says."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cometmq import (
    Admin,
    AsyncProducer,
    ClientSettings,
    Message,
    ProducerSettings,
    TransactionState,
)
from cometmq.codec.bodies.table_changes import TABLES_TOPIC
from cometmq.codec.receipt import NORMAL, ORDER_QUEUE, Receipt
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.credentials import Credentials
from tests.crash import test_pop_killed as pops
from tests.crash import test_transactions_killed as transactions
from tests.crash.test_elected_group import new_leader
from tests.crash.test_elected_tables import change, make_group, make_topic
from tests.support import frames
from tests.support.auth_users import ROOT, auth_settings, policies, signed, user
from tests.support.delays import lying_in
from tests.support.elected_group import OK, TOPIC, ElectedBrokers, elected_brokers
from tests.support.frames import ask
from tests.support.members import end_of
from tests.support.processes import wait_until
from tests.support.request_fields import pop_fields, pull_fields, word_send_fields

GROUP = "billing"
# Progress is written each second; the rest is for a busy machine. The timer's is that of a slot of 1 s.
LOST_MS_MAX = {"DELAY": 4_000, "TIMER_DELAY_MS": 5_000}
SENDS_SECONDS = 9  # Delivery that begins again repeats messages older than those limits.
INVISIBLE_MS = 6_000


def kill(group: ElectedBrokers, leader: str) -> str:
    """Kill the leader; return the address of the next one."""
    group.members[leader].kill()
    return group.members[new_leader(group, leader)].address


@pytest.mark.parametrize(("key", "wait"), [("DELAY", 1), ("TIMER_DELAY_MS", 1_000)])
def test_delivery_goes_on_where_the_log_says(tmp_path: Path, key: str, wait: int):
    """The messages have no unique key by which an earlier delivery could be found."""
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        address = group.members[leader].address
        assert make_topic(address, TOPIC, queues=1) == OK
        bodies: list[bytes] = []
        until = time.monotonic() + SENDS_SECONDS
        while time.monotonic() < until:
            bodies.append(b"%d" % len(bodies))
            fields = word_send_fields(TOPIC, 0, f"{key}\1{wait}\2")
            assert ask(address, Code.SEND_MESSAGE, fields, bodies[-1])[0]["code"] == OK
            time.sleep(0.01)
        killed_ms = time.time() * 1_000
        address = kill(group, leader)

        def delivered() -> bool:
            return {record.body for record in lying_in(address, TOPIC, 1)} == {*bodies}

        wait_until(delivered, seconds=60, what="all messages")
        records = lying_in(address, TOPIC, 1)
        first = {record.body: record.store_timestamp for record in reversed(records)}
        assert any(at < killed_ms - LOST_MS_MAX[key] for at in first.values())
        twice = [
            body for body, count in Counter(each.body for each in records).items() if count > 1
        ]
        ages = [killed_ms - first[body] for body in twice]
        assert max(ages, default=0) < LOST_MS_MAX[key], f"{len(twice)} came again"


def test_the_log_of_a_group_at_rest_does_not_grow(tmp_path: Path):
    with elected_brokers(tmp_path) as group:
        address = group.members[group.wait_for_leader()].address
        assert make_topic(address, TOPIC, queues=1) == OK
        for key, wait in (("DELAY", 1), ("TIMER_DELAY_MS", 1_000)):
            fields = word_send_fields(TOPIC, 0, f"{key}\1{wait}\2")
            assert ask(address, Code.SEND_MESSAGE, fields, b"x")[0]["code"] == OK
        wait_until(
            lambda: len(lying_in(address, TOPIC, 1)) == 2, seconds=20, what="both messages"
        )
        time.sleep(4)  # Progress is written, and the timer's slot is over.
        end = end_of(address)
        time.sleep(4)
        assert end_of(address) == end


async def test_transactions_end_once_at_the_next_leader(tmp_path: Path):
    books, numbers = transactions.Books(), itertools.count()
    with elected_brokers(tmp_path, **transactions.SETTINGS) as group:
        leader = await asyncio.to_thread(group.wait_for_leader)
        quick = ProducerSettings(send_timeout_ms=2_000, request_timeout_ms=2_000)
        async with AsyncProducer(
            group.names, group="books", settings=quick, transaction_listener=books
        ) as producer:
            await producer.send(Message(transactions.TOPIC, b"-1"))
            program = group.members[leader]
            await transactions.send_until_killed(producer, numbers, books, program)
            leader = await asyncio.to_thread(new_leader, group, leader)
            state_of = transactions.state_of
            wanted = {n for n in books.acknowledged if state_of(n) is TransactionState.COMMIT}
            found = await transactions.settled(group.members[leader], wanted)
    assert wanted <= found.keys(), "committed and forgotten"
    assert [n for n in found if state_of(n) is not TransactionState.COMMIT] == []
    assert [n for n, times in found.items() if times > 1] == [], "committed twice"


def test_popped_messages_come_again_when_they_are_due_and_acknowledged_ones_never(
    tmp_path: Path,
):
    book = pops.Book()
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        asyncio.run(pops.send_all(group.names))

        def done(part: int) -> bool:
            return len(book.done_at) >= pops.COUNT * part // 4

        asyncio.run(pops.work_until(group.names, book, lambda: done(1)))
        book.kills.append(time.monotonic())
        kill(group, leader)
        asyncio.run(pops.work_until(group.names, book, lambda: done(4)))
        quiet = time.monotonic() + pops.INVISIBLE_MS / 1000 + 1
        asyncio.run(pops.work_until(group.names, book, lambda: time.monotonic() > quiet))
    assert len(book.done_at) == pops.COUNT


def pop_in_order(address: str) -> tuple[list[bytes], int]:
    """Pop in order from queue 0; the bodies, and the time of the pop."""
    fields = pop_fields(
        TOPIC, 0, consumerGroup=GROUP, order="true", invisibleTime=INVISIBLE_MS, maxMsgNums=4
    )
    header, body = ask(address, Code.POP_MESSAGE, fields)
    if header["code"] != OK:
        return [], 0
    return [each.body for each in decode_records(body)], int(header["extFields"]["popTime"])


def acknowledge(address: str, offset: int, pop_time_ms: int) -> int:
    receipt = Receipt(
        offset, pop_time_ms, INVISIBLE_MS, ORDER_QUEUE, NORMAL, "broker-a", 0, offset
    )
    fields = {
        "topic": TOPIC, "consumerGroup": GROUP, "queueId": "0", "offset": str(offset),
        "extraInfo": str(receipt),
    }  # fmt: skip
    return change(address, Code.ACK_MESSAGE, fields)


def test_a_queue_popped_in_order_stays_locked_and_its_messages_can_be_acknowledged(
    tmp_path: Path,
):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        address = group.members[leader].address
        assert make_topic(address, TOPIC, queues=1) == OK
        assert make_group(address, GROUP, 3) == OK
        for number in range(8):
            fields = word_send_fields(TOPIC)
            assert ask(address, Code.SEND_MESSAGE, fields, b"%d" % number)[0]["code"] == OK
        bodies, popped_ms = pop_in_order(address)
        assert bodies == [b"0", b"1", b"2", b"3"]
        assert acknowledge(address, 0, popped_ms) == OK
        time.sleep(1.5)
        address = kill(group, leader)
        if time.time() * 1_000 < popped_ms + INVISIBLE_MS - 1_000:
            assert pop_in_order(address) == ([], 0), "they are still hidden"
        assert acknowledge(address, 1, popped_ms) == OK
        wait_until(
            lambda: pop_in_order(address)[0] == [b"2", b"3", b"4", b"5"],
            seconds=20,
            what="the messages that were not acknowledged, and the next ones",
        )
        assert time.time() * 1_000 >= popped_ms + INVISIBLE_MS


BOB = Credentials("bob", "the-secret-of-bob")
NAME, SUBJECT = {"username": "bob"}, {"subject": "User:bob"}


def has_bob(address: str) -> bool:
    return b"bob" in ask(address, Code.AUTH_GET_USER, NAME)[1]


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch) -> Iterator[ElectedBrokers]:
    """A group with access control; requests of the test are signed by a Super user."""
    monkeypatch.setattr(frames, "sign", lambda *request: signed(ROOT, *request))
    with elected_brokers(tmp_path, **auth_settings()) as group:
        yield group


def test_users_policies_and_request_modes_outlive_the_leader(guarded):
    leader = guarded.wait_for_leader()
    address = guarded.members[leader].address
    assert make_topic(address, TOPIC) == OK
    assert make_group(address, GROUP, 3) == OK
    mode = {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 1}
    assert change(address, Code.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode()) == OK
    assert change(address, Code.AUTH_CREATE_USER, NAME, user(BOB)) == OK
    allowed = policies((f"Topic:{TOPIC}", "Pub"))
    assert change(address, Code.AUTH_CREATE_ACL, SUBJECT, allowed) == OK
    address = kill(guarded, leader)
    _, body = ask(address, Code.GET_ALL_MESSAGE_REQUEST_MODE)
    assert json.loads(body)["messageRequestModeMap"][TOPIC][GROUP] == mode
    fields = signed(BOB, Code.SEND_MESSAGE, word_send_fields(TOPIC), b"x")
    assert ask(address, Code.SEND_MESSAGE, fields, b"x")[0]["code"] == OK
    fields = signed(BOB, Code.SEND_MESSAGE, word_send_fields("other"), b"x")
    assert (
        ask(address, Code.SEND_MESSAGE, fields, b"x")[0]["code"] == ResponseCode.NO_PERMISSION
    )
    assert change(address, Code.AUTH_DELETE_USER, NAME) == OK
    guarded.members[leader].start()
    wait_until(
        lambda: not has_bob(guarded.members[leader].address),
        seconds=20,
        what="the user, gone at the former leader",
    )


def test_users_are_changed_at_the_leader_and_no_client_reads_their_records(guarded):
    leader = guarded.wait_for_leader()
    address = guarded.members[leader].address
    with Admin(guarded.names, settings=ClientSettings(credentials=ROOT)) as admin:
        assert admin.users.create("bob", BOB.secret_key, is_super=False) == ["broker-a:0"]
    others = [each.address for own, each in guarded.members.items() if own != leader]
    for other in others:
        wait_until(
            partial(has_bob, other),
            seconds=20,
            what="the user at the other members",
        )
        header, _ = ask(other, Code.AUTH_DELETE_USER, NAME)
        assert "change users and policies at the leader" in header["remark"]
    pulled = change(address, Code.PULL_MESSAGE, pull_fields(TABLES_TOPIC))
    assert pulled == ResponseCode.TOPIC_NOT_EXIST
