"""What `cometmq cluster list` and `config` make of what brokers say."""

from __future__ import annotations

import pytest

from cometmq.admin import BrokerState, SettingsReport
from cometmq.cli.brokers import broker_line, config_lines

NUMBERS = {
    "brokerVersionDesc": "V5_3_3",
    "cometmqVersion": "0.1.0",
    "putTps": "12.5 3.0 1.0",
    "getTransferredTps": "7.0 1.0 0.5",
    "commitLogDiskRatio": "0.4321",
    "commitLogMinOffset": "1000",
    "commitLogMaxOffset": "5000",
    "bootTimestamp": "60000",
}


def state(numbers: dict[str, str], **more: object) -> BrokerState:
    given = {"is_writable": True, **more}
    return BrokerState("c", "a", 0, "127.0.0.1:1", runtime=numbers, **given)  # type: ignore[arg-type]


def test_a_line_has_the_numbers_of_ten_seconds() -> None:
    line = broker_line(state(NUMBERS), now_ms=65_999)
    assert line[4:] == ("up", "V5_3_3", "0.1.0", 12.5, 7.0, 43.2, 4000, 5, None)


@pytest.mark.parametrize(
    "numbers", [{}, {"putTps": "", "commitLogDiskRatio": "much", "bootTimestamp": "soon"}]
)
def test_what_a_broker_does_not_say_is_left_out(numbers: dict[str, str]) -> None:
    assert broker_line(state(numbers), 0)[4:] == ("up", *[None] * 8)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"is_writable": False}, "drained"),
        ({"is_writable": None}, "up"),
        ({"is_writable": False, "error": "no answer"}, "away"),
    ],
)
def test_states(more: dict[str, object], said: str) -> None:
    assert broker_line(state({}, **more), 0).state == said


def test_where_a_setting_comes_from() -> None:
    told = SettingsReport(
        {
            "listenPort": "10911",
            "brokerName": "x",
            "maxMsgsNumBatch": "64",
            "storeType": "default",
        },
        frozenset({"maxMsgsNumBatch"}),
        frozenset({"brokerName", "maxMsgsNumBatch"}),
    )
    lines = {line.key: (line.default, line.source) for line in config_lines(told)}
    assert lines["listenPort"] == ("10911", "default")
    assert lines["brokerName"][1] == "set"
    assert lines["maxMsgsNumBatch"] == ("64", "changed")
    assert lines["storeType"] == (None, "default")


def test_a_broker_of_rocketmq_does_not_tell_where_a_setting_comes_from() -> None:
    lines = config_lines(SettingsReport({"listenPort": "10911", "ofJava": "1"}))
    assert [line.source for line in lines] == ["default", "unknown"]
