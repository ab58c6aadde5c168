"""For all tables by queue: the fast ways write and read what the plain ones do, whatever names and numbers stand in them."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.bodies.json_object import load_object
from cometmq.codec.bodies.queue_table import (
    load_queue_tables,
    queue_table_json,
    queue_table_of,
    queue_table_text,
)
from cometmq.codec.bodies.stats import (
    ConsumeStats,
    QueueProgress,
    decode_all_consume_stats,
    encode_all_consume_stats,
)
from cometmq.codec.fastjson import dumps
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue

# What could be taken for the end of a key, or for one that begins.
PIECES = ["T", "é", '"', "\\", "{", "}", ",", ":", "},{", '{"brokerName":"', '","queueId":0,"topic":"', '"}:', "$ref"]  # fmt: skip
NAMES = st.lists(st.sampled_from(PIECES), max_size=5).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
QUEUES = st.builds(MessageQueue, NAMES, NAMES, st.integers(0, (1 << 31) - 1))
TABLES = st.dictionaries(
    QUEUES, st.builds(QueueProgress, LONGS, LONGS, LONGS, LONGS), max_size=4
)
GROUPS = st.dictionaries(NAMES, st.lists(TABLES.map(ConsumeStats), max_size=3), max_size=3)
KEY = '{"brokerName":"b","queueId":1,"topic":"t"}'
BROKEN = st.lists(
    st.sampled_from([KEY, f"{{{KEY}:", "{", "}", "}}", ",", ":", "1", '"a"', '"', '"a,{', "[", "]"]),
    max_size=10,
).map("".join)  # fmt: skip


@given(st.dictionaries(QUEUES, LONGS, max_size=4))
def test_the_text_of_a_table_is_fastjsons(table):
    assert load_object(queue_table_text(table, str), "it").raw() == queue_table_json(table)


@given(GROUPS)
def test_the_progress_of_all_groups_comes_back(groups):
    written = encode_all_consume_stats("127.0.0.1:10911", groups)
    assert decode_all_consume_stats(written) == {
        name: tuple(topics) for name, topics in groups.items()
    }


@given(st.dictionaries(QUEUES, st.fixed_dictionaries({"a": LONGS}), max_size=4))
def test_what_fastjson_wrote_is_read_in_either_way(table):
    written = dumps({"t": queue_table_json(table)})
    for load in (load_object, load_queue_tables):
        read = queue_table_of(load(written, "it").member("t"), lambda part: dict(part.raw()))
        assert read == table


@given(BROKEN)
def test_what_is_no_table_is_refused_in_either_way_or_read_as_the_same(text):
    found = []
    for load in (load_object, load_queue_tables):
        table = None
        with suppress(CodecError):
            table = queue_table_of(load(text, "it"), lambda part: dict(part.raw()))
        found.append(table)
    assert found[0] == found[1]
