"""A topic of typed bodies: mypy knows what goes in and what comes out, and order is kept for each customer.

Start a broker first (`cometmq up`) and `pip install msgspec`, then `python -m examples.typed_topic [NAMESERVER]`.
"""

import sys
import threading
from datetime import UTC, datetime

import msgspec

from cometmq import (
    ConsumeFrom,
    MsgspecCodec,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    Received,
    Topic,
    by_hash,
    first_key,
)

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.
CUSTOMERS, EACH = 5, 4


class Payment(msgspec.Struct):
    """The body of a message of the topic."""

    customer: str
    cents: int
    at: datetime


PAYMENTS = Topic("payments", MsgspecCodec(Payment))


class Accounts:
    """The payments of each customer, in their order."""

    def __init__(self) -> None:
        self.paid: dict[str, list[int]] = {}
        self.is_done = threading.Event()

    def book(self, payment: Received[Payment]) -> None:
        """Called for several customers at once, for one of them never twice at a time."""
        value = payment.value
        self.paid.setdefault(value.customer, []).append(value.cents)
        if sum(map(len, self.paid.values())) == CUSTOMERS * EACH:
            self.is_done.set()


def main() -> None:
    """Send payments of a few customers, and book them in order."""
    with Producer(NAMESERVER) as producer:
        for cents in range(1, EACH + 1):
            for number in range(CUSTOMERS):
                customer = f"customer-{number}"
                payment = Payment(customer, cents, datetime.now(UTC))
                producer.send(
                    PAYMENTS.message(payment, keys=customer), selector=by_hash(customer)
                )
    accounts = Accounts()
    settings = PushConsumerSettings(
        orderly=True, order_key=first_key, consume_from=ConsumeFrom.FIRST
    )
    with PushConsumer(
        NAMESERVER,
        group="accounts",
        listener=PAYMENTS.listener(accounts.book),
        subscriptions=[PAYMENTS.name],
        settings=settings,
    ):
        accounts.is_done.wait(60)
    for customer, paid in sorted(accounts.paid.items()):
        print(f"{customer}: {paid}")


if __name__ == "__main__":
    main()
