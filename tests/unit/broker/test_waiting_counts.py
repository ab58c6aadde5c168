"""timermetrics and transactionMetrics: how many messages wait, by topic; Java's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cometmq.codec.bodies.waiting_counts import (
    TIMER,
    TRANSACTION,
    WaitingTable,
    decode_waiting,
    encode_waiting,
)
from cometmq.model.codes import RequestCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError
from tests.support.hand_clock import HandClock
from tests.unit.broker.conftest import serve
from tests.unit.broker.test_timer import START, in_wheel
from tests.unit.broker.test_transactions import COMMIT, ROLLBACK, end, send_half
from tests.unit.broker.waiting import by_hand, delivered, send

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "format" / "waiting-counts.md"
NOON = 1_700_000_000_000
JAVAS = ROOT / "tests/golden/stores/clean/store/config/transactionMetrics"


def test_the_page_shows_what_the_code_writes():
    table = WaitingTable(DataVersion(NOON, 15), {"Orders": (3, NOON)})
    assert f"    {encode_waiting(table, TRANSACTION)}\n" in PAGE.read_text()


def test_what_java_wrote_comes_back_byte_for_byte():
    text = JAVAS.read_text()
    table = decode_waiting(text, TRANSACTION)
    assert table.counts["GoldenTx"][0] == 3
    assert encode_waiting(table, TRANSACTION) == text


@pytest.mark.parametrize("text", ["", "[]", '{"timingCount":{"a":1}}'])
def test_what_means_nothing_is_refused(text):
    with pytest.raises(CodecError):
        decode_waiting(text, TIMER)


def counts(folder: Path, name: str, member: str) -> dict[str, int]:
    told = json.loads((folder / "config" / name).read_text())[member]
    return {topic: of["count"] for topic, of in told.items()}


async def test_open_halves_are_counted(tmp_path):
    async with serve(tmp_path) as served:
        halves = [await send_half(served, number) for number in range(3)]
        await end(served, halves[0], COMMIT)
    assert counts(tmp_path, "transactionMetrics", TRANSACTION) == {"Paid": 2}
    async with serve(tmp_path) as served:
        await end(served, halves[1], COMMIT)
        await end(served, halves[2], ROLLBACK)
    assert counts(tmp_path, "transactionMetrics", TRANSACTION) == {"Paid": 0}


async def test_timed_messages_are_counted_and_told(tmp_path):
    clock = HandClock(START)

    async def told(served) -> dict[str, int]:
        body = (await served.ask(RequestCode.GET_TIMER_METRICS)).body
        return {topic: of["count"] for topic, of in json.loads(body)[TIMER].items()}

    async with by_hand(tmp_path, clock) as served:
        assert await told(served) == {}
        for delay_ms in ("3000", "5000"):
            await send(served, b"later", {"TIMER_DELAY_MS": delay_ms})
        await in_wheel(served, 2)
        assert await told(served) == {"Orders": 2}
        clock.turn(3)
        await delivered(served, 1)
        assert await told(served) == {"Orders": 1}
    assert counts(tmp_path, "timermetrics", TIMER) == {"Orders": 1}
    async with by_hand(tmp_path, clock) as served:
        clock.turn(3)
        await delivered(served, 2)
        assert await told(served) == {"Orders": 0}
