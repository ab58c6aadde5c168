"""Consume messages with a function: the members of a group share the queues.

Start a broker first (`cometmq up`), then `python -m examples.consumer [NAMESERVER]`, twice if you
like, and `python -m examples.producer` beside it. Ctrl-C ends it.
"""

import contextlib
import sys

from cometmq import ConsumeFrom, PushConsumer, PushConsumerSettings, StoredMessage, Tag

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.


def handle(message: StoredMessage) -> None:
    """Print a message. Raise, or return False, to be given it again later."""
    print(f"{message.queue}#{message.queue_offset} {message.tag} {message.body.decode()}")


def main() -> None:
    """Consume what is new, paid or sent, until Ctrl-C."""
    consumer = PushConsumer(
        NAMESERVER,
        group="billing",
        listener=handle,
        subscriptions={"orders": Tag("new || paid || sent")},
        settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST),
    )
    with consumer, contextlib.suppress(KeyboardInterrupt):
        consumer.wait()


if __name__ == "__main__":
    main()
