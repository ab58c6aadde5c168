"""`cometmq tail`: shows messages of a topic as they arrive, without joining a consumer group.

Each queue that the topic has at the start is polled separately, and keeps its order; queues mix in order of arrival.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cometmq.cli.asking import Clients, follows
from cometmq.cli.options import (
    START_EARLIEST,
    START_LATEST,
    AsJson,
    Limit,
    Start,
    TagFilter,
    TopicName,
    read_start,
)
from cometmq.cli.output import note, print_message
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerNotFound, BrokerRefused, CometError, NetError
from cometmq.model.message import StoredMessage
from cometmq.model.names import TOOLS_GROUP
from cometmq.model.text import plural

if TYPE_CHECKING:
    from cometmq import AsyncPullConsumer, MessageQueue, Tag
    from cometmq.connect import ClientInstance

WAIT_MS = 15_000  # A broker holds a poll this long, as for a push consumer.
_RETRY_SECONDS = 1.0
# Codes of a temporarily unreadable broker: a slave without slaveReadEnable, or a broker that is stopping.
_NOT_NOW = (
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
)
_WAITING_MAX = 1000  # Messages between network and screen; a slow pipe slows the polls.

_Arrivals = asyncio.Queue[StoredMessage]


@follows
async def tail(
    clients: Clients,
    topic: TopicName,
    *,
    start: Start = START_LATEST,
    tag: TagFilter = "*",
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Show messages as they arrive.

    With --limit it ends after that many messages.
    """
    from cometmq import AsyncPullConsumer, Tag

    place, instance = read_start(start), clients.instance
    async with AsyncPullConsumer(group=TOOLS_GROUP, instance=instance) as consumer:
        follower = _Follower(instance, consumer, Tag(tag))
        queues = await consumer.queues(topic)
        offsets = await asyncio.gather(*(_first(consumer, queue, place) for queue in queues))
        note(
            f"Following {len(queues)} {plural(len(queues), 'queue')} of {topic}; stop with Ctrl-C.",
            "dim",
        )
        following = asyncio.gather(*map(follower.follow, queues, offsets))
        showing = asyncio.ensure_future(_show(follower.arrivals, limit, as_json=as_json))
        await _until_first_ends(following, showing)


async def _first(consumer: "AsyncPullConsumer", queue: "MessageQueue", place: str | int) -> int:
    if place == START_EARLIEST:
        return await consumer.min_offset(queue)
    if isinstance(place, int):
        return await consumer.offset_by_time(queue, place)
    return await consumer.max_offset(queue)


class _Follower:
    """Puts messages that match a tag expression, from given queues and offsets on, into `arrivals`.

    If a broker cannot be read for now, it or its slave is tried again; start and end of an outage are printed once.
    """

    def __init__(
        self, instance: "ClientInstance", consumer: "AsyncPullConsumer", expression: "Tag"
    ) -> None:
        self.arrivals: _Arrivals = asyncio.Queue(_WAITING_MAX)
        self._instance = instance
        self._consumer = consumer
        self._expression = expression
        self._lost: set[str] = set()

    async def follow(self, queue: "MessageQueue", offset: int) -> None:
        """Put matching messages of a queue from an offset on into `arrivals`; raise errors that do not count as temporary."""
        while True:
            # A broker that was lost is asked without waiting, so that its return is noticed at once.
            wait_ms = 0 if queue.broker_name in self._lost else WAIT_MS
            try:
                pull = await self._consumer.fetch(
                    queue, offset, wait_ms=wait_ms, expression=self._expression
                )
            except (NetError, BrokerNotFound, BrokerRefused) as error:
                if isinstance(error, BrokerRefused) and error.code not in _NOT_NOW:
                    raise
                self._lose(queue.broker_name, error)
                await asyncio.sleep(_RETRY_SECONDS)
                await self._look_for_slaves(queue.topic)
                continue
            if queue.broker_name in self._lost:
                self._lost.remove(queue.broker_name)
                note(f"Broker {queue.broker_name} can be read again.", "dim")
            for message in pull.messages:
                await self.arrivals.put(message)
            offset = pull.next_offset

    def _lose(self, broker_name: str, error: CometError) -> None:
        if broker_name not in self._lost:
            self._lost.add(broker_name)
            note(f"Broker {broker_name} cannot be read ({error}); trying again.", "yellow")

    async def _look_for_slaves(self, topic: str) -> None:
        """Refresh the route of a topic, so that a slave can be read; keep the known route if that fails."""
        with suppress(CometError):
            await self._instance.fresh(topic)


async def _show(arrivals: _Arrivals, limit: int | None, *, as_json: bool) -> None:
    shown = 0
    while limit is None or shown < limit:
        print_message(await arrivals.get(), as_json=as_json)
        shown += 1


async def _until_first_ends(*futures: "asyncio.Future[Any]") -> None:
    """Wait until one future ends, cancel the others, and raise its exception if it has one."""
    try:
        done, _ = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in futures:
            each.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
