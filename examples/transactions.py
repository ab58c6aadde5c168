"""Transactions: consumers see a message when your own work has succeeded, or never.

Start a broker first (`cometmq up`), then `python -m examples.transactions [NAMESERVER]`.
"""

import sys

from cometmq import Message, Producer, StoredMessage, TransactionState

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.


class Books:
    """Your database: it knows what became of each order."""

    def __init__(self) -> None:
        self.booked: set[str] = set()

    def reserve(self, order: str) -> None:
        """Fail, as work may."""
        raise LookupError(f"{order} is sold out")

    def execute(self, message: Message, argument: object) -> TransactionState:
        """Do the work that belongs to the message."""
        self.booked.add(str(argument))
        return TransactionState.COMMIT

    def check(self, message: StoredMessage) -> TransactionState:
        """Asked when a producer of the group died before it had said how it ended."""
        is_booked = self.booked.issuperset(message.keys)
        return TransactionState.COMMIT if is_booked else TransactionState.ROLLBACK


def main() -> None:
    """Commit one by a block, roll one back by an exception, and one with the listener."""
    books = Books()
    with Producer(NAMESERVER, group="booking", transaction_listener=books) as producer:
        with producer.transaction(Message("bookings", b"17", keys="order-17")) as transaction:
            books.booked.add("order-17")
        print(f"committed {transaction.half.message_id}")

        try:
            with producer.transaction(Message("bookings", b"18", keys="order-18")):
                books.reserve("order-18")
        except LookupError as error:
            print(f"rolled back: {error}")

        message = Message("bookings", b"19", keys="order-19")
        result = producer.send_in_transaction(message, "order-19")
        print(f"the listener says {result.state.name}")


if __name__ == "__main__":
    main()
