"""The cluster that a source reads, by way of the client: pulls and offsets on the process's one loop.

Next: cometmq.client.pull_consumer
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from time import sleep
from typing import Any, NamedTuple

from cometmq.client import AsyncPullConsumer
from cometmq.client.hub import Hub
from cometmq.client.results import PullStatus, RawPull
from cometmq.client.sync.portal import portal
from cometmq.codec.bodies.cluster import decode_cluster_info
from cometmq.codec.bodies.topic_list import decode_topic_list
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError, NetError
from cometmq.model.queue import MessageQueue
from cometmq.spark.pool import shared
from cometmq.spark.source.cluster import PullPlan, SourceCluster
from cometmq.spark.source.settings import SourceSettings

# What is gathered at once: about what is decoded at once (`pull.WINDOW_ROWS`, `WINDOW_BYTES`), so
# that a read holds two such windows.
GATHER_PULLS = 256
GATHER_BYTES = 8 << 20

_ADVANCING = (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE)


def source_cluster(settings: SourceSettings) -> SourceCluster:
    """The cluster that a source reads, connected."""
    retries = settings.retries, settings.retry_interval_ms
    key = ("source", settings.name_servers, settings.group, retries)
    return shared(key, lambda: ClientSourceCluster(settings))


class ClientSourceCluster:
    """A cluster as the source sees it (`cluster.SourceCluster`), over one client.

    Args:
        settings: nameservers and group.
    """

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._hub = Hub(";".join(settings.name_servers))
        self._consumer = AsyncPullConsumer(group=settings.group, hub=self._hub)
        portal().call(self._hub.start)
        portal().call(self._consumer.start)

    def topics(self) -> Sequence[str]:
        """All topics that the nameserver knows."""
        command = Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return decode_topic_list(self._ask_nameserver(command).body).topics

    def brokers(self) -> Collection[str]:
        """The brokers that are registered."""
        command = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
        return decode_cluster_info(self._ask_nameserver(command).body).brokers.keys()

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The readable queues of a topic."""
        queues: list[MessageQueue] = self._ask(self._consumer.queues, topic)
        return queues

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still holds."""
        return int(self._ask(self._consumer.min_offset, queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The next offset that the queue will write."""
        return int(self._ask(self._consumer.max_offset, queue))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first message stored at or after a time; the maximum when there is none."""
        return int(self._ask(self._consumer.offset_by_time, queue, timestamp_ms))

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """What the group has committed, or None."""
        offset: int | None = self._ask(self._consumer.committed, queue)
        return offset

    def pulls(
        self, queue: MessageQueue, *, start: int, end: int, plan: PullPlan
    ) -> Iterator[RawPull]:
        """The answers for [start, end), up to the first that has nothing at its offset."""
        answers = self._consumer.fetch_range_raw(
            queue, start, end, max_count=plan.rows, depth=plan.depth, expression=plan.expression
        )
        ahead = portal().call(Gathering.begin, answers)
        try:
            while pulls := portal().call(ahead.given):
                # The next answers come in while these are decoded.
                ahead = portal().call(Gathering.begin, answers)
                for pull in pulls:
                    yield pull
                    if pull.status not in _ADVANCING:
                        return
        finally:
            portal().call(ahead.end)

    def _ask_nameserver(self, command: Command) -> Command:
        answer: Command = self._ask(self._hub.nameservers.ask, command)
        return answer

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Ask, and again some times where nobody answers."""
        for _ in range(self._settings.retries):
            try:
                return portal().call(function, *args)
            except NetError:
                sleep(self._settings.retry_interval_ms / 1000)
        return portal().call(function, *args)


class Gathering(NamedTuple):
    """Answers gathered on the loop, many for one crossing between threads.

    Attributes:
        answers: where they come from.
        task: gathers the next ones.
    """

    answers: AsyncGenerator[RawPull, None]
    task: asyncio.Task[list[RawPull]]

    @classmethod
    def begin(cls, answers: AsyncGenerator[RawPull, None]) -> "Gathering":
        """Gather the next answers; called on the loop."""
        return cls(answers, asyncio.get_running_loop().create_task(_gather(answers)))

    def given(self) -> asyncio.Task[list[RawPull]]:
        """What is gathered; an empty list at the end. Called on the loop."""
        return self.task

    async def end(self) -> None:
        """Ask for no more."""
        self.task.cancel()
        # Gathering it takes its error, which nobody else will look at.
        await asyncio.gather(self.task, return_exceptions=True)
        await self.answers.aclose()


async def _gather(answers: AsyncGenerator[RawPull, None]) -> list[RawPull]:
    pulls: list[RawPull] = []
    size = 0
    try:
        async for pull in answers:
            pulls.append(pull)
            size += len(pull.body)
            if size >= GATHER_BYTES or len(pulls) >= GATHER_PULLS:
                break
    except CometError:
        # What came before the failure counts; the next pull will meet it again.
        if not pulls:
            raise
    return pulls
