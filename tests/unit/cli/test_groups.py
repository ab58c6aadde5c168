"""What `cometmq group` and `cometmq offset` make of what brokers say."""

from __future__ import annotations

from cometmq import MessageQueue
from cometmq.admin import GroupConfig, GroupState, OffsetMove, QueueProgress, Total
from cometmq.cli.groups import group_line, progress_lines
from cometmq.cli.offsets import (
    ExportedOffset,
    MoveLine,
    OffsetExport,
    read_export,
    said_of,
)
from cometmq.cli.output import json_of

QUEUE = MessageQueue("orders", "a", 1)
RETRY = MessageQueue("%RETRY%billing", "a", 0)


def test_a_line_sums_what_all_brokers_say_and_leaves_the_retry_topic_out() -> None:
    state = GroupState(
        "billing",
        {
            "a": GroupConfig("billing"),
            "b": GroupConfig("billing", consume_enabled=False),
        },
        {
            QUEUE: QueueProgress(9, 4, 4, 1000, oldest_ms=4_000),
            RETRY: QueueProgress(3, 1, oldest_ms=7_500),
        },
        rate=1.25,
    )
    line = group_line(state, 10_500)
    assert line == ("billing", ["orders"], 0, None, 7, [], 6, 1.25, False)
    assert group_line(state, 3_000).behind_s == 0, "a broker's clock is ahead"
    assert state.in_topic("%RETRY%billing").oldest_ms == 7_500
    assert progress_lines(state, 99, "orders") == [
        ("billing", "orders", "a", 1, 4, 9, 5, 1000, 4_000, 99)
    ]
    retries = ("billing", "%RETRY%billing", "a", 0, 1, 3, 2, None, 7_500, 99)
    assert progress_lines(state, 99)[0] == retries


def test_a_group_whose_broker_reports_no_time_is_behind_by_an_unknown_time() -> None:
    state = GroupState("billing", progress={QUEUE: QueueProgress(9, 4)})
    assert (state.oldest_ms, group_line(state, 5_000).behind_s) == (None, None)


def test_a_group_ahead_of_its_queue_lacks_nothing() -> None:
    # A broker that lost the end of its log.
    state = GroupState("billing", progress={QUEUE: QueueProgress(4, 9)})
    assert state.lag == Total(0)
    assert progress_lines(state, 99)[0].lag == 0


def test_moves_say_what_is_passed_over_and_what_comes_again() -> None:
    lines = [
        MoveLine("orders", "a", 1, 4, 7, 3),
        MoveLine("orders", "a", 2, 9, 2, -7),
    ]
    assert said_of("g", lines) == (
        "Reset group g? It skips 3 messages and consumes 7 messages again."
    )
    assert [OffsetMove(QUEUE, each, 7).skipped for each in (4, 9, None)] == [3, -2, None]


def test_an_export_is_read_again() -> None:
    made = OffsetExport("billing", 5, [ExportedOffset("orders", "a", 1, 4)])
    assert read_export(json_of(made), "x.json") == ("billing", {QUEUE: 4})
