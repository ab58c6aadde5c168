"""`cometmq consume`: a member of a consumer group that prints its messages.

A message counts as consumed once it is printed; received ones that were not printed stay for the group's members.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli import complete
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    START_EARLIEST,
    START_LATEST,
    AsJson,
    CountMax,
    Nameserver,
    Start,
    TagFilter,
    TopicName,
    read_start,
)
from cometmq.cli.output import print_message
from cometmq.cli.patience import patient
from cometmq.cli.running import until_stopped
from cometmq.model.message import StoredMessage

if TYPE_CHECKING:
    from cometmq import PushSettings

# Printing ends at once. A listener call that waits (`_never`) must not delay the end.
_CLOSE_TIMEOUT_MS = 200


def consume(
    topic: TopicName,
    *,
    group: Annotated[
        str,
        typer.Option(
            "--group",
            "-g",
            help="The consumer group to join.",
            autocompletion=complete.groups,
        ),
    ],
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    start: Start = START_LATEST,
    tag: TagFilter = "*",
    count_max: CountMax = None,
    as_json: AsJson = False,
) -> None:
    """Consume as a member of a group.

    --from applies only to queues in which the group has no offset yet. A topic that does not exist is an error, status 3.
    """
    from cometmq.net.loop import run

    printer = _Printer(count_max, as_json=as_json)
    run(until_stopped(_consume(nameserver, group, topic, tag, read_start(start), printer)))


class _Printer:
    """A listener that prints messages; it blocks after `count_max` of them (None: no limit) or a failed print."""

    def __init__(self, count_max: int | None, *, as_json: bool) -> None:
        self._count_max = count_max
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
        if self._count == self._count_max:
            self._ended.set()

    async def wait_ended(self) -> None:
        """Wait until `count_max` messages are printed (None: forever). Raises OSError if one cannot be printed."""
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure


async def _never() -> None:
    """Wait forever, so that a message is neither consumed nor retried and stays for the next member."""
    await asyncio.get_running_loop().create_future()


async def _consume(
    nameserver: str,
    group: str,
    topic: str,
    tag: str,
    place: str | int,
    printer: _Printer,
) -> None:
    from cometmq import AsyncPushConsumer, Tag
    from cometmq.connect import ClientInstance

    settings = _settings(place)
    instance = ClientInstance(nameserver, settings)
    try:
        consumer = AsyncPushConsumer(
            group=group,
            listener=printer,
            subscriptions={topic: Tag(tag)},
            settings=settings,
            instance=instance,
        )
        # A consumer waits for its topic to be created; a user who mistyped it must get an error instead.
        await instance.nameserver_api.route(topic)
        async with consumer:
            await printer.wait_ended()
    finally:
        await instance.close()


def _settings(place: str | int) -> "PushSettings":
    from cometmq import ConsumeFrom, PushSettings

    if isinstance(place, int):
        rule, timestamp_ms = ConsumeFrom.TIMESTAMP, place
    else:
        rules = {START_EARLIEST: ConsumeFrom.FIRST, START_LATEST: ConsumeFrom.LAST}
        rule, timestamp_ms = rules[place], None
    return patient(
        PushSettings,
        concurrency=1,
        consume_from=rule,
        consume_timestamp_ms=timestamp_ms,
        close_timeout_ms=_CLOSE_TIMEOUT_MS,
    )
