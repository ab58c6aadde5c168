"""Tables of lanes, of either kernel."""

from collections.abc import Mapping
from typing import Any

from cometmq.kernel.rows import Lane
from cometmq.store.appender import encode_topic_block


def table_of(kernel: Any, topics: Mapping[str, Mapping[int, Any]], start: str = "") -> Any:
    """A table with lanes to these queues, by topic and number, and with one start of answers."""
    table = kernel.LaneTable()
    for topic, queues in topics.items():
        block = encode_topic_block(topic)
        for number, queue in queues.items():
            table.keep(topic, number, Lane(queue, block, start, 0, block))
    return table
