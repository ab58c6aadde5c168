"""Messages that come later: after a time, at a time, by one of the fixed levels.

Start a broker first (`cometmq up`), then `python -m examples.later [NAMESERVER]`.
"""

import sys
from datetime import datetime, timedelta

from cometmq import Message, Producer, PullConsumer

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.


def main() -> None:
    """Send three reminders and wait for them."""
    with Producer(NAMESERVER) as producer, PullConsumer(NAMESERVER, group="later") as consumer:
        producer.send(Message("reminders", b"now"))
        soon = datetime.now().astimezone() + timedelta(seconds=2)
        producer.send(Message("reminders", b"at a time", deliver=soon))
        producer.send(Message("reminders", b"after a time", deliver=timedelta(seconds=1)))
        producer.send(Message("reminders", b"by level 1", delay_level=1))  # 1 s
        consumer.subscribe("reminders")
        come: list[str] = []
        while len(come) < 4:
            come += [message.body.decode() for message in consumer.receive(wait_ms=5000)]
        print(f"first {come[0]!r}, then {sorted(come[1:])}")


if __name__ == "__main__":
    main()
