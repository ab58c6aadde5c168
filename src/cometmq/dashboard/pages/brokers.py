"""Web pages of brokers: the list with live numbers, and one broker with its settings."""

from starlette.responses import Response

from cometmq.dashboard.inputs import PageMissing, needed, number_of, text_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.model.errors import CometError
from cometmq.model.text import in_quotes


async def show_brokers(request: PageRequest) -> Response:
    """Return the HTML page with the list of brokers, as last polled."""
    return _list(request, "brokers.html")


async def show_rows(request: PageRequest) -> Response:
    """Return the part of the page of brokers that refreshes itself, as HTML: the list, as last polled."""
    return _list(request, "part_brokers.html")


def _list(request: PageRequest, template: str) -> Response:
    watcher = request.watcher
    return request.page(
        template,
        "Brokers",
        section="brokers",
        brokers=watcher.brokers(),
        is_begun=watcher.is_begun,
        seconds=watcher.seconds,
    )


async def show_broker(request: PageRequest) -> Response:
    """Return the HTML page of one broker: its last known runtime numbers, and its settings or why they are unknown.

    The field `find` filters both. Raises PageMissing if the watcher, which polls the brokers, has no such broker.
    """
    name = needed(request.fields, "name", "broker")
    broker_id = number_of(request.fields, "id", "Broker id", least=0, most=2**31 - 1, default=0)
    looked_for = text_of(request.fields, "find").lower()
    known = request.watcher.broker(name, broker_id)
    if known is None:
        raise PageMissing(
            f"No broker {in_quotes(name, 100)} with the id {broker_id} is registered or was registered within the "
            "last hour. The page Brokers lists the registered ones."
        )
    values: dict[str, str] = {}
    changed: frozenset[str] = frozenset()
    trouble = ""
    try:
        told = await request.admin.brokers.settings(name, broker_id)
        values, changed = dict(told.values), told.changed
    except CometError as error:
        trouble = str(error)
    return request.page(
        "broker.html",
        name,
        section="brokers",
        broker=known,
        values=[pair for pair in sorted(values.items()) if _has(pair, looked_for)],
        numbers=[
            pair for pair in sorted(known.state.runtime.items()) if _has(pair, looked_for)
        ],
        changed=changed,
        trouble=trouble,
        find=looked_for,
        curve=request.watcher.rate_curve(name) if broker_id == 0 else [[], [], []],
    )


def _has(pair: tuple[str, str], looked_for: str) -> bool:
    return looked_for in pair[0].lower() or looked_for in pair[1].lower()


PAGES = (
    Page("/brokers", show_brokers),
    Page("/part/brokers", show_rows, is_part=True),
    Page("/broker", show_broker),
)
