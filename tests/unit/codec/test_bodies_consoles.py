"""Bodies that consoles read: as docs/format/consoles.md has them, and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.codec.bodies.queue_entries import QueueLook, encode_queue_look
from cometmq.codec.bodies.queue_offsets import (
    decode_client_offsets,
    decode_queue_offsets,
    encode_client_offsets,
    encode_queue_offset_list,
    encode_queue_offsets,
)
from cometmq.codec.bodies.running import (
    ConsumeRates,
    DirectOutcome,
    DirectResult,
    PopState,
    QueueState,
    RunningState,
    decode_direct,
    decode_running,
    encode_direct,
    encode_running,
)
from cometmq.codec.bodies.stats import (
    ConsumeStats,
    QueueBounds,
    QueueProgress,
    StatsWindow,
    TopicStats,
    decode_consume_stats,
    decode_group_list,
    decode_stats_windows,
    decode_topic_stats,
    encode_consume_stats,
    encode_group_list,
    encode_stats_windows,
    encode_topic_stats,
)
from cometmq.codec.fastjson import dumps, loads
from cometmq.codec.queue_entry import QueueEntry
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import SQL92, Subscription, parse_subscription

PAGE = Path(__file__).parents[3] / "docs" / "format" / "consoles.md"
QUEUE = MessageQueue("T", "broker-a", 0)
ANY = MessageQueue("T", "broker-a", -1)
NOON = 1_700_000_000_000
TOPIC = TopicStats({QUEUE: QueueBounds(2, 12, NOON)}, 0.5)
GROUP = ConsumeStats({QUEUE: QueueProgress(12, 7, 7, NOON)}, 1.5)
OUTCOME = DirectOutcome(DirectResult.SUCCESS, 3)


def examples() -> list[str]:
    lines = PAGE.read_text().splitlines()
    return [line.strip() for line in lines if line.startswith("    {")]


def test_the_page_shows_what_the_code_writes():
    assert examples() == [
        encode_topic_stats(TOPIC).decode(),
        encode_consume_stats(GROUP).decode(),
        encode_stats_windows(
            minute=StatsWindow(6, 0.1), hour=StatsWindow(12, 0.5), day=StatsWindow(12, 0.5)
        ).decode(),
        dumps({"correctionOffsets": {0: 12, 1: 2**63 - 1}}).decode(),
        encode_queue_look(QueueLook(2, 12, [QueueEntry(1024, 165, 97)], "T", "g")).decode(),
        dumps({"group": "g", "readable": False, "topic": "T"}).decode(),
        encode_queue_offsets({QUEUE: 7}).decode(),
        encode_queue_offset_list({QUEUE: 7}).decode(),
        encode_direct(OUTCOME).decode(),
    ]


def test_statistics_are_read_back():
    assert decode_topic_stats(encode_topic_stats(TOPIC)) == TOPIC
    assert decode_consume_stats(encode_consume_stats(GROUP)) == GROUP
    assert GROUP.lag == 5
    ours = ConsumeStats({QUEUE: QueueProgress(12, 7, 7, NOON, False, NOON + 1)}, 1.5)
    assert decode_consume_stats(encode_consume_stats(ours)) == ours
    assert decode_group_list(encode_group_list(["b", "a"])) == ("a", "b")


def test_offsets_are_read_in_either_form():
    assert decode_queue_offsets(encode_queue_offset_list({QUEUE: 7})) == {QUEUE: 7}
    assert decode_client_offsets(encode_client_offsets({QUEUE: 7})) == {QUEUE: 7}


def test_a_running_consumer_is_read_back():
    state = RunningState(
        {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
        (parse_subscription("T", "a || b", version=3),),
        {QUEUE: QueueState(commit_offset=4, cached_count=2, cached_min=4, cached_max=5)},
        {"T": ConsumeRates(1.5, 2.0, 3.0, 4.0, 0.5, 6)},
        "MainThread",
        {ANY: PopState(waiting_count=3, popped_ms=NOON, is_dropped=True)},
    )
    assert decode_running(encode_running(state)) == state
    assert b"jstack" not in encode_running(RunningState({}))


def test_a_filter_by_sql_is_shown_to_people():
    wanted = Subscription("T", "a > 1", SQL92)
    told = loads(encode_queue_look(QueueLook(0, 0, [], "T", "g", wanted)))
    assert told["subscriptionData"]["expressionType"] == "SQL92"
    assert '"a > 1"' in told["filterData"]
    plain = parse_subscription("T", "*")
    assert (
        loads(encode_queue_look(QueueLook(0, 0, [], "T", "g", plain)))["filterData"] == "null"
    )


@pytest.mark.parametrize("result", list(DirectResult))
def test_each_verdict_is_read_back(result):
    outcome = DirectOutcome(result, 1, "why", is_orderly=True)
    assert decode_direct(encode_direct(outcome)) == outcome


def test_a_verdict_of_a_later_version_is_no_error():
    assert decode_direct(b'{"consumeResult":"CR_MAYBE"}').result is DirectResult.NULL


def test_what_is_wrong_is_named():
    for read, name in ((decode_topic_stats, "topicPutTps"), (decode_stats_windows, "statsDay")):
        with pytest.raises(CodecError, match="a number with too many digits"):
            read(b'{"%s":%s}' % (name.encode(), b"9" * 400))
    with pytest.raises(CodecError, match="must be a queue"):
        decode_topic_stats(b'{"offsetTable":{"a":{}}}')
    body = b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{}}}'
    with pytest.raises(CodecError, match="brokerOffset"):
        decode_consume_stats(body)
    assert loads(encode_topic_stats(TopicStats())) == {"offsetTable": {}, "topicPutTps": 0.0}
