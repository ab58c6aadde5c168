"""The cluster on the pictures of the documentation: a shop whose orders are billed, mailed and packed."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
    SendResult,
    StoredMessage,
)
from cometmq.admin import GroupConfig
from tests.support.processes import wait_until
from tests.support.programs import small_cluster

ORDERS, PAYMENTS = "orders", "payments"
OTHERS = ("customers", "invoices", "parcels", "returns", "stock")
BILLING, MAILING, PACKING = "billing", "mailing", "packing"
ORDERS_COUNT, REFUSED = 2_000, (7, 19, 23)
COUNTRIES = ("DE", "FR", "IT", "NL", "PL")


class Shop(NamedTuple):
    """Where it is, and a message whose way was traced: mailing it fails."""

    nameserver: str
    traced: SendResult


def order(number: int) -> Message:
    """An order as the shop sends it."""
    body = {
        "order": 40_000 + number,
        "customer": f"c-{number * 37 % 911}",
        "country": COUNTRIES[number % len(COUNTRIES)],
        "total": f"{number * 131 % 9_000 / 100 + 5:.2f}",
        "items": [{"article": f"a-{number * 17 % 400}", "count": number % 3 + 1}],
    }
    tag = "paid" if number % 4 else "created"
    return Message(ORDERS, json.dumps(body).encode(), tag=tag, keys=f"order-{40_000 + number}")


def mail(message: StoredMessage) -> None:
    """What fails for some of the orders that are traced.

    Raises:
        ValueError: the order has no address.
    """
    if json.loads(message.body)["order"] - 40_000 in REFUSED:
        raise ValueError("no address")


@contextmanager
def shop(folder: Path) -> Iterator[Shop]:
    """A cluster that goes on selling."""
    with ExitStack() as stack:
        names, _ = stack.enter_context(small_cluster(folder, traceTopicEnable="true"))
        traced = fill(names.address)
        is_over = threading.Event()
        seller = threading.Thread(target=sell, args=(names.address, is_over))
        seller.start()
        stack.callback(seller.join)
        stack.callback(is_over.set)
        yield Shop(names.address, traced)


def fill(nameserver: str) -> SendResult:
    """Topics, groups, and the first of the orders, some of which die in the group that mails; one of these."""
    with Admin(nameserver) as admin:
        for topic in (ORDERS, PAYMENTS, *OTHERS):
            admin.topics.create(topic, queues=4)
        for group in (BILLING, MAILING, PACKING):
            admin.groups.create(GroupConfig(group))
        settings = PushConsumerSettings(
            consume_from=ConsumeFrom.FIRST, trace=True, retries_max=0
        )
        mails = PushConsumer(nameserver, group=MAILING, listener=mail, settings=settings)
        mails.subscribe(ORDERS)
        traced = ProducerSettings(trace=True)
        with mails, Producer(nameserver, group="web_shop", settings=traced) as producer:
            sent = [producer.send(order(number)) for number in range(40)]
            wait_until(lambda: dead(admin) == len(REFUSED), seconds=60, what="dead letters")
        with Producer(nameserver, group="web_shop") as producer:
            producer.send_many(order(number) for number in range(40, ORDERS_COUNT))
            producer.send_many(
                Message(PAYMENTS, b'{"paid": true}', keys=f"order-{40_000 + number}")
                for number in range(500)
            )
    return sent[REFUSED[0]]


def sell(nameserver: str, is_over: threading.Event) -> None:
    """Go on until it is over: more and less orders come, and the group that bills falls behind."""
    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, concurrency=1)
    bills = PushConsumer(
        nameserver, group=BILLING, listener=lambda _: time.sleep(0.01), settings=settings
    )
    traced = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, trace=True)
    packs = PushConsumer(nameserver, group=PACKING, listener=lambda _: None, settings=traced)
    for consumer in (bills, packs):
        consumer.subscribe(ORDERS)
    with bills, packs, Producer(nameserver, group="web_shop") as producer:
        number = ORDERS_COUNT
        while not is_over.wait(0.25):
            count = 40 + number // 7 % 31
            producer.send_many(order(each) for each in range(number, number + count))
            number += count


def dead(admin: Admin) -> int:
    """How many orders could not be mailed."""
    topic = f"%DLQ%{MAILING}"
    if topic not in admin.topics.list():
        return 0
    return sum(each.message_count for each in admin.topics.offsets(topic).values())
