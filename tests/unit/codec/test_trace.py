"""Records of message traces: as Java writes them, and as it and older clients are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.codec.trace import (
    Trace,
    TracedMessage,
    TraceKind,
    TraceOutcome,
    decode_traces,
    encode_traces,
    trace_keys,
)
from cometmq.model.errors import CodecError
from cometmq.model.message import Message

PAGE = Path(__file__).parents[3] / "docs" / "format" / "trace.md"
ID = "7F0000010000000000000000C0FFEE01"
PUB = Trace(
    kind=TraceKind.PUB, message_id=ID, time_ms=1_700_000_000_000, region="DefaultRegion",
    group="PG", topic="orders", tags="paid", keys="order-17", store_host="10.0.0.1:10911",
    body_size=128, took_ms=3, message_kind=TracedMessage.DELAY,
    offset_message_id="7F00000100002A9F0000000000000000",
)  # fmt: skip
BEFORE = Trace(
    kind=TraceKind.SUB_BEFORE, message_id=ID, time_ms=1_700_000_000_100, region="DefaultRegion",
    group="CG", request_id="7F0000010000000000000000C0FFEE02", tries=1, keys="order-17",
)  # fmt: skip
AFTER = Trace(
    kind=TraceKind.SUB_AFTER, message_id=ID, time_ms=1_700_000_000_100, group="CG", took_ms=7,
    request_id="7F0000010000000000000000C0FFEE02", keys="order-17", is_success=False,
    outcome=TraceOutcome.FAILED,
)  # fmt: skip

END = Trace(
    kind=TraceKind.END_TRANSACTION, message_id=ID, time_ms=1_700_000_000_200,
    region="DefaultRegion", group="PG", topic="orders", tags="paid", keys="order-17",
    store_host="10.0.0.1:10911", message_kind=TracedMessage.COMMIT, transaction_id=ID,
    state="COMMIT_MESSAGE", is_from_check=True,
)  # fmt: skip


def visible(body: bytes) -> str:
    return body.decode().replace("\x01", "|").replace("\x02", "$")


def test_the_page_shows_what_the_code_writes():
    lines = [line.strip() for line in PAGE.read_text().splitlines() if line.startswith("    ")]
    assert lines == [visible(encode_traces([trace])) for trace in (PUB, BEFORE, AFTER, END)]


def test_records_are_read_back():
    traces = [PUB, BEFORE, AFTER, END]
    assert decode_traces(encode_traces(traces)) == traces
    assert trace_keys(traces) == (ID, "order-17")


def test_a_key_of_a_trace_is_not_cut_at_what_python_calls_white_space():
    trace = replace(PUB, keys="订单\u3000号 b")
    assert trace_keys([trace]) == (ID, "订单\u3000号", "b")


def test_an_id_with_spaces_gives_keys_that_a_message_may_have():
    traces = [replace(PUB, message_id="an id", keys="b"), replace(PUB, message_id="", keys="c")]
    assert trace_keys(traces) == ("an", "id", "b", "c")
    Message("t", b"", keys=trace_keys(traces))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # 4.x, without the offset id; 5.x of some vendors, with the client's host behind it.
        ("Pub|5|R|G|T|I|null|null|h:1|9|2|0|true$", {"tags": "", "is_success": True}),
        ("Pub|5|R|G|T|I|a|k|h:1|9|2|0|OFF|false|c:2$", {"is_success": False}),
        ("SubAfter|Q|I|3|true|k$", {"took_ms": 3, "outcome": TraceOutcome.SUCCESS}),
        ("SubAfter|Q|I|3|true|k|2|$", {"outcome": TraceOutcome.EXCEPTION}),
        ("Recall|5|R|G|T|I|true$", {"topic": "T", "is_success": True}),
        (
            "EndTransaction|5|R|G|T|I|a|k|h:1|1|TX|COMMIT_MESSAGE|false$",
            {"message_kind": TracedMessage.HALF, "is_success": True},
        ),
    ],
)
def test_what_other_clients_write_is_read(text, wanted):
    (trace,) = decode_traces(text.replace("|", "\x01").replace("$", "\x02").encode())
    assert trace.message_id == "I"
    assert {name: getattr(trace, name) for name in wanted} == wanted


def test_kinds_of_later_versions_are_passed_over():
    assert decode_traces(b"Replay\x015\x01x\x02") == []


@pytest.mark.parametrize(
    "text", ["Pub\x015\x02", "SubBefore\x01x\x01r\x01g\x01q\x01i\x010\x01\x02"]
)
def test_a_broken_record_is_an_error_that_names_it(text):
    with pytest.raises(CodecError, match="trace of"):
        decode_traces(text.encode())
