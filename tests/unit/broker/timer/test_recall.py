"""Recalls by values: a handle in, a message that takes another one back out."""

from __future__ import annotations

import pytest

from cometmq.broker.parts import Parts
from cometmq.broker.timer.recall import Recall, RecallResult
from cometmq.broker.timer.times import TimedSends
from cometmq.codec.headers.send import RecallRequest
from cometmq.codec.recall_handle import RecallHandle, encode_recall_handle
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import WHEEL_TIMER_TOPIC
from cometmq.model.topic import TopicConfig
from tests.support.steps import run
from tests.support.store_puts import read_all
from tests.unit.broker.parts_by_hand import HOST, tables_by_hand

KEY = "7F00000100000001"


ORDERS = TopicConfig("orders", 2, 2)


@pytest.fixture
async def parts(tmp_path):
    async with tables_by_hand(tmp_path, ORDERS, is_recall_on=True) as made:
        yield made


def recall_of(parts: Parts) -> Recall:
    return Recall(parts, TimedSends(parts))


def handle(parts: Parts, *, broker: str = "broker-a", seconds: float = 5) -> str:
    time_ms = parts.clock.now_ms() + int(seconds * 1000)
    return encode_recall_handle(RecallHandle("orders", broker, str(time_ms), KEY))


async def test_a_recall_is_a_message_for_the_same_second(parts):
    request = RecallRequest("orders", handle(parts), "shop")
    result = await run(recall_of(parts).recall(request, HOST))
    assert result == RecallResult(KEY, "DefaultRegion")
    (message,) = read_all(parts.store, WHEEL_TIMER_TOPIC)
    properties = message.properties()
    assert (properties["UNIQ_KEY"], properties["PGROUP"]) == (KEY, "shop")
    assert KEY in properties["TIMER_DEL_UNIQKEY"]
    assert properties["REAL_TOPIC"] == "orders"
    assert message.born_host == HOST


@pytest.mark.parametrize(
    ("topic", "more", "words"),
    [
        ("nothing", {}, "not exist"),
        ("other", {}, "topic not match"),
        ("orders", {"broker": "broker-b"}, "service not available"),
        ("orders", {"seconds": 0}, "timestamp invalid"),
        ("orders", {"seconds": 1e9}, "timestamp invalid"),
    ],
)
async def test_what_cannot_be_taken_back_is_refused_and_nothing_is_stored(
    parts, topic, more, words
):
    parts.topics.put(TopicConfig("other", 1, 1))
    with pytest.raises(RequestError, match=words):
        await run(recall_of(parts).recall(RecallRequest(topic, handle(parts, **more)), HOST))
    assert parts.store.max_offset == 0


async def test_a_handle_with_a_time_of_thousands_of_digits_is_refused(parts):
    endless = encode_recall_handle(RecallHandle("orders", "broker-a", "9" * 5000, KEY))
    with pytest.raises(RequestError, match="timestamp invalid"):
        await run(recall_of(parts).recall(RecallRequest("orders", endless, "shop"), HOST))


async def test_recalls_are_off_unless_they_are_wanted(tmp_path):
    async with tables_by_hand(tmp_path, ORDERS, is_recall_on=False) as parts:
        with pytest.raises(RequestError, match="recallMessageEnable") as refused:
            await run(recall_of(parts).recall(RecallRequest("orders", handle(parts)), HOST))
        assert refused.value.code == ResponseCode.NO_PERMISSION
