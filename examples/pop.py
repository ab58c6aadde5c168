"""Receive message by message: filter by properties, acknowledge, hide for longer, receive again.

Start a broker first (`cometmq up`), then `python -m examples.pop [NAMESERVER]`.
"""

import sys

from cometmq import Message, Producer, SimpleConsumer, Sql

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.
TOPIC = "parcels"


def main() -> None:
    """Send parcels, and work on the heavy ones."""
    with Producer(NAMESERVER) as producer:
        for kilos in (1, 7, 30):
            producer.send(Message(TOPIC, b"parcel", properties={"kilos": str(kilos)}))
    heavy = Sql("kilos >= 5 AND kilos IS NOT NULL")
    with SimpleConsumer(NAMESERVER, group="porters", subscriptions={TOPIC: heavy}) as consumer:
        left = 2
        while left:
            for message in consumer.receive(invisible_ms=2_000):
                kilos = int(message.properties["kilos"])
                if kilos > 20 and not message.reconsume_times:
                    # Not now: it is hidden for a second, then comes again.
                    consumer.change_invisibility(message, 1_000)
                    print(f"{kilos} kg: in a second")
                    continue
                consumer.ack(message)
                print(f"{kilos} kg: done, received {message.reconsume_times + 1} times")
                left -= 1


if __name__ == "__main__":
    main()
