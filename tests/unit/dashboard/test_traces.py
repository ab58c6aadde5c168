"""A trace becomes the pieces of a message's way, in order, with bars that fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cometmq.admin import Trace, TraceKind
from cometmq.codec.trace import TraceOutcome
from cometmq.dashboard.pages.traces import spans_of

PUB = Trace(kind=TraceKind.PUB, message_id="m", time_ms=1000, group="p", topic="t", took_ms=20)
BEFORE = Trace(
    kind=TraceKind.SUB_BEFORE, message_id="m", time_ms=1100, group="c", request_id="r", tries=2
)
AFTER = Trace(
    kind=TraceKind.SUB_AFTER,
    message_id="m",
    request_id="r",
    took_ms=100,
    is_success=False,
    outcome=TraceOutcome.EXCEPTION,
)


def test_a_send_and_a_consumption_with_its_end():
    sent, consumed = spans_of([AFTER, BEFORE, PUB])
    assert (sent.what, sent.group, sent.took_ms, sent.outcome, sent.is_well) == (
        "sent",
        "p",
        20,
        "stored",
        True,
    )
    assert (consumed.what, consumed.tries, consumed.outcome, consumed.is_well) == (
        "consumed",
        2,
        "exception",
        False,
    )
    assert (sent.left, sent.width) == (0, 100)
    assert (consumed.left, consumed.width) == (500, 500)


def test_an_end_that_is_not_told_is_said():
    (consumed,) = spans_of([BEFORE])
    assert (consumed.took_ms, consumed.is_well, consumed.outcome) == (
        None,
        None,
        "its end was not traced",
    )
    assert spans_of([AFTER]) == []
    assert spans_of([]) == []


@given(
    st.lists(
        st.builds(
            Trace,
            kind=st.sampled_from(TraceKind),
            message_id=st.just("m"),
            time_ms=st.integers(-(2**63), 2**63 - 1),
            took_ms=st.integers(-(2**31), 2**31 - 1),
            request_id=st.sampled_from(["", "a", "b"]),
        ),
        max_size=8,
    )
)
def test_whatever_a_peer_traced_has_bars_that_fit(traces):
    for each in spans_of(traces):
        assert 0 <= each.left <= 1000
        assert each.width >= 8
