"""A broker or nameserver that hangs takes a part of the time of a request, and another one does the work."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from cometmq import (
    Admin,
    AsyncAdmin,
    AsyncProducer,
    AsyncPushConsumer,
    Message,
    ProducerSettings,
    PushConsumerSettings,
    SendStatus,
    StoredMessage,
    TransactionState,
)
from cometmq.model.errors import RequestTimeout
from cometmq.model.flags import PERM_WRITE
from tests.support import processes
from tests.support.processes import Program
from tests.support.programs import halted

TOPIC = "hung"
NAMES = ("broker-a", "broker-b", "broker-c")


class Hung(NamedTuple):
    nameserver: str
    brokers: dict[str, Program]


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hung]:
    """Three brokers with a topic, of which the first is stopped: its connections are open, and it answers nothing."""
    folder: Path = tmp_path_factory.mktemp("hung")
    with ExitStack() as stack:
        names = stack.enter_context(processes.nameserver(folder / "names"))
        brokers = {
            name: stack.enter_context(
                processes.broker(folder / name, names.address, settings={"brokerName": name})
            )
            for name in NAMES
        }
        with Admin(names.address) as admin:
            admin.topics.create(TOPIC, queues=2)
        with halted(brokers[NAMES[0]]):
            yield Hung(names.address, brokers)


async def send_plain(producer: AsyncProducer, number: int) -> SendStatus:
    return (await producer.send(Message(TOPIC, b"%d" % number))).status


async def send_with_properties(producer: AsyncProducer, number: int) -> SendStatus:
    return (await producer.send(Message(TOPIC, b"%d" % number, keys=f"k{number}"))).status


async def send_batch(producer: AsyncProducer, number: int) -> SendStatus:
    return (await producer.send_batch([Message(TOPIC, b"%d" % number)] * 3)).status


async def send_half(producer: AsyncProducer, number: int) -> SendStatus:
    sent = await producer.send_in_transaction(Message(TOPIC, b"%d" % number))
    return sent.send.status


class Commits:
    """Commits each transaction."""

    def execute(self, _message: Message, _argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, _message: StoredMessage) -> TransactionState:
        return TransactionState.COMMIT


@pytest.mark.parametrize(
    ("send", "settings"),
    [
        (send_plain, {}),
        (send_plain, {"auto_batch": True}),
        (send_plain, {"latency_fault": True}),
        (send_plain, {"attempt_timeout_ms": 600}),
        (send_with_properties, {}),
        (send_batch, {}),
        (send_half, {}),
    ],
)
async def test_a_broker_that_hangs_leaves_time_for_another(hung: Hung, send, settings):
    async with AsyncProducer(
        hung.nameserver,
        group="hung",
        settings=ProducerSettings(**settings),
        transaction_listener=Commits(),
    ) as producer:
        # One after the other: six queues, two of them at the broker that hangs.
        assert [await send(producer, number) for number in range(6)] == [SendStatus.OK] * 6


async def test_two_brokers_that_hang_leave_time_for_the_third(hung: Hung):
    with halted(hung.brokers[NAMES[1]]):
        async with AsyncProducer(hung.nameserver) as producer:
            results = [await producer.send(Message(TOPIC, b"x")) for _ in range(3)]
    assert {each.queue.broker_name for each in results} == {NAMES[2]}


async def test_a_nameserver_that_hangs_leaves_time_for_another(hung: Hung, tmp_path: Path):
    with processes.nameserver(tmp_path) as hangs, halted(hangs):
        # Whichever is asked first.
        for _ in range(4):
            async with AsyncProducer(f"{hangs.address};{hung.nameserver}") as producer:
                assert (await producer.send(Message(TOPIC, b"x"))).status is SendStatus.OK


async def test_a_nameserver_that_hangs_keeps_nothing_from_the_others(
    hung: Hung, tmp_path: Path
):
    with processes.nameserver(tmp_path) as hangs, halted(hangs):
        async with AsyncAdmin(f"{hangs.address};{hung.nameserver}") as admin:
            with pytest.raises(RequestTimeout, match=hangs.address):
                await admin.brokers.drain(NAMES[2])
    async with AsyncAdmin(hung.nameserver) as admin:
        route = await admin.topics.route(TOPIC)
        await admin.brokers.undrain(NAMES[2])
    perms = {each.broker_name: each.perm for each in route.queues}
    assert not perms[NAMES[2]] & PERM_WRITE
    assert perms[NAMES[1]] & PERM_WRITE


@pytest.mark.parametrize("client_rebalance", [True, False])
async def test_a_broker_that_hangs_keeps_no_consumer_from_its_queues(
    hung: Hung, client_rebalance: bool
):
    async def listen(_message: StoredMessage) -> None: ...

    settings = PushConsumerSettings(client_rebalance=client_rebalance)
    group = f"hung-{client_rebalance}"
    async with AsyncPushConsumer(
        hung.nameserver, group=group, listener=listen, subscriptions=[TOPIC], settings=settings
    ) as consumer:
        member = consumer._member
        deadline = time.monotonic() + 60
        while (
            not member._shares.is_complete
        ):  # Brokers hear of the group with its first heartbeat.
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        for _ in range(6):  # Whichever broker is asked first.
            addresses = await member._shares._addresses(TOPIC)
            assert len(addresses) == len(NAMES)
            assert consumer.client_id in await member._shares._members(TOPIC)
            if member._shares.assigned is not None:
                await member._shares.assigned.pulled(TOPIC, addresses)
