"""Each flight becomes a message: tag = carrier, key = tail number, body = the row as JSON."""

from collections.abc import Callable, Iterator

import orjson
import pyarrow as pa

from cometmq import Message, Producer

TOPIC = "flights"
BATCH = 256  # Flights in one request: about 100 KB, a fortieth of what a broker takes.


def messages_of(flights: pa.RecordBatch | pa.Table) -> Iterator[Message]:
    """The messages of some rows."""
    for row in flights.to_pylist():
        yield Message(TOPIC, orjson.dumps(row), tag=row["carrier"], keys=row["tailnum"] or ())


def send_flights(
    flights: pa.Table, nameserver: str, *, on_sent: Callable[[int], object]
) -> None:
    """Send every row; returns when the broker has acknowledged all of them.

    Args:
        flights: the table.
        nameserver: "host:port".
        on_sent: told how many more are acknowledged.

    Raises:
        ClientError: a message was not acknowledged.
    """
    with Producer(nameserver, group="flights-demo") as producer:
        for rows in flights.to_batches(max_chunksize=BATCH):
            producer.send_batch(list(messages_of(rows)))
            on_sent(rows.num_rows)
