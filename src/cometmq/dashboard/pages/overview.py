"""The dashboard's start page: message rates, brokers and lagging groups; and the list of servers that do not answer."""

from starlette.responses import Response

from cometmq.admin import grouped_symptoms
from cometmq.dashboard.page_request import Page, PageRequest

_GROUPS_SHOWN = 8
_FINDINGS_SHOWN = 5


async def show_overview(request: PageRequest) -> Response:
    """Return the dashboard's start page, HTML: rates, dead letters, problems, brokers, the 8 groups furthest behind."""
    return request.page("overview.html", "Overview", section="overview", **_seen(request))


async def show_numbers(request: PageRequest) -> Response:
    """Return the part of the start page that refreshes itself, with all its numbers and the chart, as HTML."""
    return request.page("part_overview.html", "Overview", **_seen(request))


async def show_troubles(request: PageRequest) -> Response:
    """Return the part at the head of most pages, as HTML: servers that did not answer or left, since when, and why."""
    return request.page("part_troubles.html", "")


def _seen(request: PageRequest) -> dict[str, object]:
    watcher = request.watcher
    brokers = watcher.brokers()
    rates = [each.rates for each in brokers if each.state.broker_id == 0 and each.rates]
    lags = sorted((watcher.lags or {}).items(), key=lambda each: (-each[1], each[0]))
    findings = None if watcher.findings is None else grouped_symptoms(watcher.findings)
    return {
        "brokers": brokers,
        "up": sum(1 for each in brokers if each.away_ms is None),
        "put": sum(each[0] for each in rates) if rates else None,
        "handed_out": sum(each[1] for each in rates) if rates else None,
        "lag": watcher.lag_of_all,
        "behind": [each for each in lags if each[1] > 0][:_GROUPS_SHOWN],
        "lag_trouble": watcher.lag_trouble,
        "dead": watcher.dead_letters,
        "findings": findings and findings[:_FINDINGS_SHOWN],
        "found": len(findings or ()),
        "found_ms": watcher.findings_ms,
        "seconds": watcher.seconds,
        "curve": watcher.rate_curve(),
    }


PAGES = (
    Page("/", show_overview),
    Page("/part/overview", show_numbers, is_part=True),
    Page("/part/troubles", show_troubles, is_part=True),
)
