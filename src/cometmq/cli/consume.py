"""`cometmq consume`: a member of a consumer group that prints its messages.

A message counts as consumed once it is printed; received ones that were not printed stay for the group's members.
"""

import asyncio
from typing import TYPE_CHECKING

from cometmq.cli.asking import Clients, follows
from cometmq.cli.options import (
    START_EARLIEST,
    START_LATEST,
    AsJson,
    Limit,
    NeededGroup,
    Start,
    TagFilter,
    TopicName,
    read_start,
)
from cometmq.cli.output import print_message
from cometmq.cli.patience import patient
from cometmq.model.message import StoredMessage

if TYPE_CHECKING:
    from cometmq import PushConsumerSettings

# Printing ends at once. A listener call that waits (`_never`) must not delay the end.
_CLOSE_TIMEOUT_MS = 200


@follows
async def consume(
    clients: Clients,
    topic: TopicName,
    *,
    group: NeededGroup,
    start: Start = START_LATEST,
    tag: TagFilter = "*",
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Consume as a member of a group.

    With --limit it ends after that many messages.
    --from applies only to queues in which the group has no offset yet. A topic that does not exist is an error, status 3.
    """
    from cometmq import AsyncPushConsumer, Tag

    printer = _Printer(limit, as_json=as_json)
    consumer = AsyncPushConsumer(
        group=group,
        listener=printer,
        subscriptions={topic: Tag(tag)},
        settings=_settings(read_start(start)),
        instance=clients.instance,
    )
    # A consumer waits for its topic to be created; a user who mistyped it must get an error instead.
    await clients.instance.nameserver_api.route(topic)
    async with consumer:
        await printer.wait_ended()


class _Printer:
    """A listener that prints messages; it blocks after `limit` of them (None: no limit) or a failed print."""

    def __init__(self, limit: int | None, *, as_json: bool) -> None:
        self._limit = limit
        self._as_json = as_json
        self._count = 0
        self._failure: OSError | None = None
        self._ended = asyncio.Event()

    async def __call__(self, message: StoredMessage) -> None:
        if self._ended.is_set():
            await _never()
        try:
            print_message(message, as_json=self._as_json)
        except OSError as error:
            # Nobody reads our output any more: the command must report it; the message must not be retried.
            self._failure = error
            self._ended.set()
            await _never()
        self._count += 1
        if self._count == self._limit:
            self._ended.set()

    async def wait_ended(self) -> None:
        """Wait until `limit` messages are printed (None: forever). Raises OSError if one cannot be printed."""
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure


async def _never() -> None:
    """Wait forever, so that a message is neither consumed nor retried and stays for the next member."""
    await asyncio.get_running_loop().create_future()


def _settings(place: str | int) -> "PushConsumerSettings":
    from cometmq import ConsumeFrom, PushConsumerSettings

    if isinstance(place, int):
        rule, timestamp_ms = ConsumeFrom.TIMESTAMP, place
    else:
        rules = {START_EARLIEST: ConsumeFrom.FIRST, START_LATEST: ConsumeFrom.LAST}
        rule, timestamp_ms = rules[place], None
    return patient(
        PushConsumerSettings,
        concurrency=1,
        consume_from=rule,
        consume_timestamp_ms=timestamp_ms,
        close_timeout_ms=_CLOSE_TIMEOUT_MS,
    )
