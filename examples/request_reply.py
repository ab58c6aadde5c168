"""Ask over a topic and get the answer: whoever consumes the topic replies.

Start a broker first (`cometmq up`), then `python -m examples.request_reply [NAMESERVER]`.
"""

import sys

from cometmq import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.errors import RequestTimeout

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.
PRICES = {b"apple": b"0.30", b"pear": b"0.45"}


def main() -> None:
    """Ask for prices of the topic `prices`."""
    with Producer(NAMESERVER, group="shop") as shop, Producer(NAMESERVER) as customer:

        def answer(message: StoredMessage) -> None:
            if message.body in PRICES:
                shop.reply(message, PRICES[message.body])

        settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST)
        with PushConsumer(
            NAMESERVER,
            group="shop",
            listener=answer,
            subscriptions=["prices"],
            settings=settings,
        ):
            for fruit in PRICES:
                reply = customer.request(Message("prices", fruit), timeout_ms=20_000)
                print(f"{fruit.decode()}: {reply.body.decode()}")
            try:
                customer.request(Message("prices", b"kiwi"), timeout_ms=500)
            except RequestTimeout:
                print("kiwi: nobody knows")


if __name__ == "__main__":
    main()
