"""A listener that keeps a processor busy, in processes of its own; and a pause.

Start a broker first (`cometmq up`), then `python -m examples.in_processes [NAMESERVER]`.
"""

import sys
import time

from cometmq import (
    ConsumeFrom,
    InProcesses,
    Message,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.


def add_up(message: StoredMessage) -> None:
    """Something that takes a while; a function of a module, so that a process can import it."""
    assert sum(range(int(message.body))) >= 0


def main() -> None:
    """Have twenty sums worked out by two processes."""
    with Producer(NAMESERVER) as producer:
        producer.send_many(Message("sums", b"%d" % (100_000 + n)) for n in range(20))
    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, concurrency=2)
    with (
        InProcesses(add_up, processes=2) as listener,
        PushConsumer(
            NAMESERVER,
            group="sums",
            listener=listener,
            subscriptions=["sums"],
            settings=settings,
        ) as consumer,
    ):
        while (done := consumer.statistics().get("sums")) is None or done.consumed < 20:
            time.sleep(0.05)
        consumer.pause()
        print(f"{done.consumed} sums, {done.failed} failed; paused")


if __name__ == "__main__":
    main()
