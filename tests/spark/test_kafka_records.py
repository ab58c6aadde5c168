"""Records of Kafka with keys and headers of any bytes, as messages and back; without a Kafka."""

from typing import Any

from pyspark.sql import Row

from cometmq.spark.jobs.kafka import messages_of, records_of
from tests.spark.conftest import load, save

COLUMNS = (
    "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
SCHEMA_7 = b"\x00\x00\x00\x00\x07"  # What a registry of schemas puts before a key.
KEYS = (
    None, b"k1", "größe".encode(), SCHEMA_7 + b"k", b"a\x01b\x02c", b"\xff\xfe", (258).to_bytes(8),
)  # fmt: skip
HEADERS = (
    (),
    (("p", b"x y"),),
    (("p", b"\x01"), ("q", b"\xc3\x28"), ("r", "日".encode()), ("s\x02", b"t")),
)


def comparable(row: Row) -> tuple[Any, ...]:
    """Key, value, and the headers that a user gave."""
    headers = {each.key: bytes(each.value) for each in row.headers if each.key[0] in "pqrs"}
    return row.key and bytes(row.key), bytes(row.value), tuple(sorted(headers.items()))


def test_a_record_of_any_bytes_is_a_message_and_the_same_record_again(spark, cluster, topic):
    made = [
        ("in", number % 2, number, key, b"%d" % number, list(headers))
        for number, (key, headers) in enumerate((k, h) for k in KEYS for h in HEADERS)
    ]
    records = spark.createDataFrame(made, COLUMNS)
    save(messages_of(records).drop("storeSize"), cluster, topic)
    messages = load(spark, cluster, topic)
    again = records_of(messages).collect()
    assert sorted(map(repr, map(comparable, again))) == sorted(
        map(repr, map(comparable, records.collect()))
    )
    by_body = {bytes(row.body): row for row in messages.collect()}
    assert by_body[b"3"]["keys"] == "k1"
    assert "KAFKA_KEY" not in by_body[b"3"].properties
    queues: dict[Any, set[int]] = {}
    for at, row in enumerate(made):
        queues.setdefault(row[3], set()).add(by_body[b"%d" % at].queueId)
    del queues[None]
    assert all(len(each) == 1 for each in queues.values()), "one key goes to one queue"
