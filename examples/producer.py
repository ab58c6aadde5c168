"""Send messages: one, many, a batch, with a key that keeps their order.

Start a broker first (`cometmq up`), then `python -m examples.producer [NAMESERVER]`.
"""

import sys

from cometmq import Message, Producer, by_hash

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.


def main() -> None:
    """Send to the topic `orders`."""
    with Producer(NAMESERVER) as producer:
        one = producer.send(Message("orders", b'{"id": 17}', tag="new", keys="order-17"))
        print(f"{one.message_id} lies in {one.queue} at {one.queue_offset}")

        # One call, many messages under way: the way to send a lot.
        many = producer.send_many(
            Message("orders", b'{"id": %d}' % number, tag="new") for number in range(1000)
        )
        print(f"{len(many)} messages in {len({result.queue for result in many})} queues")

        # One request: all of them lie in one queue, one behind the other.
        batch = producer.send_batch([Message("orders", b"a"), Message("orders", b"b")])
        print(f"a batch in {batch.queue} from {batch.queue_offset} on")

        # All states of one order go to one queue, so they are read in their order.
        for state in ("paid", "packed", "sent"):
            message = Message("orders", state.encode(), tag=state, keys="order-17")
            producer.send(message, selector=by_hash("order-17"))


if __name__ == "__main__":
    main()
