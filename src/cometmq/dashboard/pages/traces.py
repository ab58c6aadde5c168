"""The dashboard's page with the trace of a message as a graph: producer, store, the groups that consumed it, times."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from starlette.responses import Response

from cometmq.admin import Trace, TraceKind
from cometmq.dashboard.inputs import text_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.model.names import TRACE_TOPIC

_WIDTH = 1000


class TraceSpan(NamedTuple):
    """One step of a message's trace.

    Attributes:
        what: "sent", "consumed", "ended" (its transaction) or "taken back".
        group: Group of the producer or consumer.
        where: Region or broker, as the trace record says; may be empty.
        begun_ms: Start, ms since 1970.
        took_ms: Duration of the send, or per message of the listener's call, ms; 0 for others; None if not recorded.
        outcome: Outcome in words.
        is_well: Whether it succeeded, True for "ended"; None for a consumption whose end was not recorded.
        tries: Number of earlier deliveries of the message.
        left: Start of its bar in the graph, in 1/1000 of the width.
        width: Width of its bar, in 1/1000.
    """

    what: str
    group: str
    where: str
    begun_ms: int
    took_ms: int | None
    outcome: str
    is_well: bool | None
    tries: int = 0
    left: int = 0
    width: int = 2


async def show_trace(request: PageRequest) -> Response:
    """Return the HTML page with a form for a message id and, for a submitted one, a graph of up to 64 trace messages."""
    message_id = text_of(request.fields, "id")
    trace_topic = text_of(request.fields, "trace_topic") or TRACE_TOPIC
    traces: list[Trace] = []
    unreadable: list[str] = []
    if message_id:
        traces = await request.admin.messages.trace(
            message_id, topic=trace_topic, on_unreadable=unreadable.append
        )
    spans = spans_of(traces)
    return request.page(
        "trace.html",
        "Trace",
        section="traces",
        id=message_id,
        trace_topic=trace_topic,
        sent=[each for each in spans if each.what != "consumed"],
        groups=_by_group(spans),
        spans=spans,
        first=next((each for each in traces if each.topic), None),
        unreadable=len(unreadable),
    )


def _by_group(spans: Iterable[TraceSpan]) -> dict[str, list[TraceSpan]]:
    groups: dict[str, list[TraceSpan]] = {}
    for each in spans:
        if each.what == "consumed":
            groups.setdefault(each.group, []).append(each)
    return groups


def spans_of(traces: Sequence[Trace]) -> list[TraceSpan]:
    """Return a trace's steps, sorted by start. The records before and after a consumption become one step, as do equal ones."""
    ended = {each.request_id: each for each in traces if each.kind is TraceKind.SUB_AFTER}
    spans = [
        span for each in traces if (span := _span(each, ended.get(each.request_id))) is not None
    ]
    return _with_bars(sorted(set(spans), key=lambda each: (each.begun_ms, each.group)))


def _span(trace: Trace, end: Trace | None) -> TraceSpan | None:
    """Return the step of a trace record; None for the second record of a consumption."""
    if trace.kind is TraceKind.SUB_BEFORE:
        return _consumed(trace, end)
    told = {
        TraceKind.PUB: ("sent", "stored" if trace.is_success else "failed", trace.store_host),
        TraceKind.END_TRANSACTION: ("ended", "transaction ended", trace.store_host),
        TraceKind.RECALL: ("taken back", "recalled", trace.region),
    }.get(trace.kind)
    if told is None:
        return None
    what, outcome, where = told
    is_well = trace.is_success or trace.kind is TraceKind.END_TRANSACTION
    return TraceSpan(what, trace.group, where, trace.time_ms, trace.took_ms, outcome, is_well)


def _consumed(trace: Trace, end: Trace | None) -> TraceSpan:
    took_ms, outcome, is_well = None, "its end was not traced", None
    if end is not None:
        took_ms, is_well = end.took_ms, end.is_success
        outcome = end.outcome.name.lower().replace("_", " ")
    return TraceSpan(
        "consumed",
        trace.group,
        trace.region,
        trace.time_ms,
        took_ms,
        outcome,
        is_well,
        trace.tries,
    )


def _with_bars(spans: Sequence[TraceSpan]) -> list[TraceSpan]:
    if not spans:
        return []
    begin = spans[0].begun_ms
    end = max(each.begun_ms + (each.took_ms or 0) for each in spans)
    length = max(end - begin, 1)
    return [
        each._replace(
            left=min((each.begun_ms - begin) * _WIDTH // length, _WIDTH - 8),
            width=max((each.took_ms or 0) * _WIDTH // length, 8),
        )
        for each in spans
    ]


PAGES = (Page("/trace", show_trace),)
