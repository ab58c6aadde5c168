"""Consume in order: all states of an order one after the other, whoever of the group has its queue.

Start a broker first (`cometmq up`), then `python -m examples.in_order [NAMESERVER]`.
"""

import sys
import threading

from cometmq import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
    by_hash,
)

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.
STATES = ("new", "paid", "packed", "sent")


def main() -> None:
    """Send the states of a few orders and consume them."""
    seen: dict[str, list[str]] = {}
    is_done = threading.Event()

    def handle(message: StoredMessage) -> None:
        """Return False, and the queue waits until this message is consumed."""
        order, state = message.body.decode().split()
        seen.setdefault(order, []).append(state)
        if sum(map(len, seen.values())) == 5 * len(STATES):
            is_done.set()

    with Producer(NAMESERVER) as producer:
        for state in STATES:
            for order in range(5):
                message = Message("states", f"order-{order} {state}".encode())
                producer.send(message, selector=by_hash(f"order-{order}"))
    consumer = PushConsumer(
        NAMESERVER,
        group="packers",
        listener=handle,
        subscriptions=["states"],
        settings=PushConsumerSettings(orderly=True, consume_from=ConsumeFrom.FIRST),
    )
    with consumer:
        is_done.wait(30)
    for name, states in sorted(seen.items()):
        print(f"{name}: {' -> '.join(states)}")


if __name__ == "__main__":
    main()
