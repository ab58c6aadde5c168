"""Offsets: canonical text, the durable start, users' JSON."""

import json

import pytest

from cometmq.model.errors import SettingsError
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.offsets import INITIAL, QueueValues, StreamOffset


def queue(topic="t", broker="b", number=0):
    return MessageQueue(topic, broker, number)


def test_equal_offsets_are_equal_text_whatever_order_they_were_made_in():
    ends = {queue("z"): 1, queue("a", "y", 10): 2, queue("a", "y", 2): 3, queue("a", "x"): 4}
    backwards = dict(reversed(ends.items()))
    text = json.dumps(StreamOffset(ends).to_json())
    assert text == json.dumps(StreamOffset(backwards).to_json())
    assert text == (
        '{"q": {"a": {"x": {"0": 4}, "y": {"2": 3, "10": 2}}, "z": {"b": {"0": 1}}}, "v": 1}'
    )


def test_an_offset_comes_back_from_its_json():
    offset = StreamOffset({queue(): 5, queue(number=1): 7}, {queue(number=1): 3})
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_the_initial_offset_knows_no_queue():
    offset = StreamOffset.from_json(INITIAL)
    assert offset.is_initial
    assert offset.ends == {}
    assert offset.to_json() == INITIAL


@pytest.mark.parametrize("value", [{}, {"v": 2, "q": {}}, {"topic": {"0": 1}}])
def test_an_offset_of_something_else_is_refused(value):
    with pytest.raises(SettingsError, match="new checkpoint location"):
        StreamOffset.from_json(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"t": 5}', 5),
        ('{"t": {"b": 6}}', 6),
        ('{"t": {"b": {"0": 7, "1": 8}}}', 7),
        ('{"t": {"b": {"1": 8}}}', None),
        ('{"t": {"other": 6}}', None),
        ("{}", None),
    ],
)
def test_a_tree_may_end_at_topic_broker_or_queue(text, expected):
    assert QueueValues.parse(text, "startingOffsets").of(queue()) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("latst", "not JSON"),
        ("5", "object by topic"),
        ('{"t": "5"}', "object by broker"),
        ('{"t": true}', "object by broker"),
        ('{"t": {"b": {"x": 1}}}', "'x' is not a queue number"),
        ('{"t": {"b": {"0": {"deep": 1}}}}', "a number"),
    ],
)
def test_a_wrong_tree_names_the_option_and_the_fault(text, says):
    with pytest.raises(SettingsError, match=f"startingOffsets.*{says}"):
        QueueValues.parse(text, "startingOffsets")
