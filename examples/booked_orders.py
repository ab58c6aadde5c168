"""Orders in a database and in a topic, both or neither: transactions with SQLite.

Start a broker first (`cometmq up`), then `python -m examples.booked_orders DATABASE [NAMESERVER]`. The order's row and its
message belong together: consumers see the message when the row is committed, whatever dies in between. With
`--die` the program ends between the two, as a crash would; the next run is asked by the broker what became of it.
"""

import os
import sqlite3
import sys
import time
from pathlib import Path

from cometmq import Message, Producer, SimpleConsumer, StoredMessage, TransactionState

DATABASE = Path(sys.argv[1])
NAMESERVER = sys.argv[2] if len(sys.argv) > 2 else None  # None: NAMESRV_ADDR, or localhost.
TOPIC = "booked-orders"


class Shop:
    """The database, which alone knows what is booked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._connection() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, cents INT CHECK (cents > 0))"
            )

    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path)

    def book(self, order_id: str, cents: int) -> None:
        """Write the order; raises where the database refuses it."""
        with self._connection() as database:
            database.execute("INSERT INTO orders VALUES (?, ?)", (order_id, cents))

    def execute(self, message: Message, argument: object) -> TransactionState:
        """Not used here: the work is in the `with` block."""
        raise NotImplementedError

    def check(self, message: StoredMessage) -> TransactionState:
        """Answer the broker, which asks whether an order was booked whose program died."""
        with self._connection() as database:
            [order_id] = message.keys
            row = database.execute("SELECT 1 FROM orders WHERE id = ?", (order_id,)).fetchone()
        return TransactionState.COMMIT if row else TransactionState.ROLLBACK


def main() -> None:
    """Book an order, fail to book another, and show what consumers see."""
    shop = Shop(DATABASE)
    with Producer(NAMESERVER, group="shop", transaction_listener=shop) as producer:
        if "--die" in sys.argv:
            with producer.transaction(Message(TOPIC, b"o-1", keys="o-1")):
                shop.book("o-1", 500)
                os._exit(1)  # The row is there, the message is not yet for consumers.
        try:
            with producer.transaction(Message(TOPIC, b"o-2", keys="o-2")):
                shop.book("o-2", -1)
        except sqlite3.IntegrityError as error:
            print(f"o-2 is not booked: {error}")
        with producer.transaction(Message(TOPIC, b"o-3", keys="o-3")):
            shop.book("o-3", 700)
        with SimpleConsumer(NAMESERVER, group="shipping", subscriptions=[TOPIC]) as consumer:
            seen: list[str] = []
            deadline = time.monotonic() + 90
            while len(seen) < 2 and time.monotonic() < deadline:
                for message in consumer.receive(wait_ms=2_000):
                    seen += message.keys
                    consumer.ack(message)
    print(f"consumers see {' and '.join(sorted(seen))}")


if __name__ == "__main__":
    main()
