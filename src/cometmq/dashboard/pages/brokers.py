"""Brokers: who is there with which numbers, and the settings of each.

Next: cometmq.dashboard.watcher
"""

from starlette.responses import Response

from cometmq.dashboard.asked import Asked, Page
from cometmq.dashboard.inputs import PageMissing, needed, number_of, text_of
from cometmq.model.errors import CometError


async def show_brokers(asked: Asked) -> Response:
    """Show all brokers."""
    return asked.page(
        "brokers.html",
        "Brokers",
        section="brokers",
        brokers=asked.watcher.brokers(),
        is_begun=asked.watcher.is_begun,
        seconds=asked.watcher.seconds,
    )


async def show_rows(asked: Asked) -> Response:
    """The live part of it."""
    return asked.page(
        "part_brokers.html",
        "",
        brokers=asked.watcher.brokers(),
        is_begun=asked.watcher.is_begun,
        seconds=asked.watcher.seconds,
    )


async def show_broker(asked: Asked) -> Response:
    """One broker: its numbers and its settings."""
    name = needed(asked.fields, "name", "broker")
    broker_id = number_of(asked.fields, "id", "Broker id", least=0, most=2**31 - 1, default=0)
    looked_for = text_of(asked.fields, "find").lower()
    known = asked.watcher.broker(name, broker_id)
    if known is None:
        raise PageMissing(
            f"No broker {name[:100]!r} with the id {broker_id} is registered, or was within the last hour. "
            "The page of brokers lists those that are."
        )
    values: dict[str, str] = {}
    changed: frozenset[str] = frozenset()
    trouble = ""
    try:
        told = await asked.inspector.settings(name, broker_id)
        values, changed = dict(told.values), told.changed
    except CometError as error:
        trouble = str(error)
    return asked.page(
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
        curve=asked.watcher.rate_curve(name) if broker_id == 0 else [[], [], []],
    )


def _has(pair: tuple[str, str], looked_for: str) -> bool:
    return looked_for in pair[0].lower() or looked_for in pair[1].lower()


PAGES = (
    Page("/brokers", show_brokers),
    Page("/part/brokers", show_rows, is_part=True),
    Page("/broker", show_broker),
)
