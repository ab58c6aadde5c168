"""What Spark reports of a batch becomes offsets of a consumer group."""

import json

from cometmq.model.queue import MessageQueue
from cometmq.spark.source.commits import ends_of
from cometmq.spark.source.offsets import INITIAL, StreamOffset

QUEUE = MessageQueue("orders", "broker-a", 3)


def report(*offsets: object) -> str:
    return json.dumps({"sources": [{"endOffset": offset} for offset in offsets]})


def test_the_end_of_a_batch_is_found_among_other_sources():
    ours = StreamOffset({QUEUE: 42}, {QUEUE: 7}).to_json()
    others: list[object] = [{"topic": {"0": 5}}, 17, "17", None, "no json", {"v": 9}]
    assert ends_of(report(*others, ours)) == {QUEUE: 42}
    assert ends_of(report(json.dumps(ours))) == {QUEUE: 42}


def test_before_the_first_batch_there_is_nothing_to_store():
    assert ends_of(report(INITIAL)) == {}
    assert ends_of(report()) == {}
