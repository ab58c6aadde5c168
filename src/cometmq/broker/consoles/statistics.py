"""Statistics of topics and groups: 202, 208, 300, 303, 317, 343, 345.

Offsets are read from the tables as they are; store times need the log and are read in a thread of
the pool. A topic's rate of puts is counted from store times, a group's from the growth of its
offsets, so that no send and no pull counts for it. Follows AdminBrokerProcessor of RocketMQ 5.3.3.

Next: cometmq.broker.consoles.rates
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from cometmq.broker.consoles.rates import SAMPLE_SECONDS, WINDOW_SECONDS, ConsumeRateSamples
from cometmq.broker.machines.on_loop import Machines
from cometmq.broker.parts import Feature, Parts
from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import subscription_json
from cometmq.codec.bodies.stats import (
    ConsumeStats,
    QueueBounds,
    QueueProgress,
    TimeSpan,
    TopicStats,
    encode_all_consume_stats,
    encode_consume_stats,
    encode_group_list,
    encode_time_spans,
    encode_topic_stats,
)
from cometmq.codec.bodies.topic_list import encode_topic_list
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import (
    AllConsumeStatsRequest,
    ConsumeStatsRequest,
    TopicGroupRequest,
)
from cometmq.codec.headers.topic import GroupRequest, TopicRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.store.consume_queue import ConsumeQueue

Value = TypeVar("Value")


class Statistics(Feature):
    """Answers what consoles ask about progress."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rates = ConsumeRateSamples(parts.offsets, parts.clock)
        self._machines = Machines(parts.world, "statistics")
        self.answers = {
            RequestCode.GET_TOPIC_STATS_INFO: self.topic,
            RequestCode.GET_CONSUME_STATS: self.group,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.groups_of_topic,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
            RequestCode.GET_BROKER_CONSUME_STATS: self.all_groups,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of_group,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
        }

    async def start(self) -> None:
        """Begin to sample offsets."""
        self._machines.keep("rates", self._sample)

    async def close(self) -> None:
        """Sample no more."""
        await self._machines.close()

    def _sample(self) -> float:
        self._rates.sample()
        return SAMPLE_SECONDS

    async def _in_pool(self, read: Callable[[], Value]) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._parts.pool, read)

    # --- topics

    async def topic(self, command: Command, _peer: Peer) -> Answer:
        """GET_TOPIC_STATS_INFO 202."""
        config = self._topic(decode_fields(TopicRequest, command.fields).topic)
        queues = self._queues(config, max(config.read_queues, config.write_queues))
        stats = await self._in_pool(lambda: self._topic_stats(queues))
        return Answer(body=encode_topic_stats(stats))

    def _topic_stats(self, queues: dict[MessageQueue, ConsumeQueue | None]) -> TopicStats:
        store = self._parts.store
        since_ms = self._parts.clock.now_ms() - int(WINDOW_SECONDS * 1000)
        bounds, put_count = {}, 0
        for name, queue in queues.items():
            if queue is None:
                bounds[name] = QueueBounds(0, 0)
                continue
            last = queue.max_offset
            updated_ms = max(store.store_time_at(queue, last - 1), 0)
            bounds[name] = QueueBounds(queue.min_offset, last, updated_ms)
            if updated_ms >= since_ms:
                put_count += last - store.offset_by_time(queue, since_ms)
        return TopicStats(bounds, put_count / WINDOW_SECONDS)

    def groups_of_topic(self, command: Command, _peer: Peer) -> Answer:
        """QUERY_TOPIC_CONSUME_BY_WHO 300: groups that are there and groups that have offsets."""
        topic = decode_fields(TopicRequest, command.fields).topic
        groups = set(self._parts.offsets.groups_of(topic))
        groups.update(self._parts.members.groups_of(topic))
        return Answer(body=encode_group_list(groups))

    # --- groups

    async def group(self, command: Command, _peer: Peer) -> Answer:
        """GET_CONSUME_STATS 208."""
        request = decode_fields(ConsumeStatsRequest, command.fields)
        listed = [name for name in (request.topic_list or "").split(";") if name]
        named = listed or ([request.topic] if request.topic else None)
        stats = await self._progress_of(request.consumer_group, named)
        queues = {queue: progress for each in stats for queue, progress in each.queues.items()}
        total = ConsumeStats(queues, sum(each.rate for each in stats))
        return Answer(body=encode_consume_stats(total))

    async def all_groups(self, command: Command, _peer: Peer) -> Answer:
        """GET_BROKER_CONSUME_STATS 317."""
        only_ordered = decode_fields(AllConsumeStatsRequest, command.fields).is_order
        groups = {
            group: await self._progress_of(group, None, only_ordered=only_ordered)
            for group in self._parts.groups.table().groups
        }
        return Answer(body=encode_all_consume_stats(self._parts.address, groups))

    async def _progress_of(
        self, group: str, named: list[str] | None, *, only_ordered: bool = False
    ) -> list[ConsumeStats]:
        topics = self._parts.topics
        configs = [
            config
            for name in (self._topics_of(group) if named is None else named)
            if (config := topics.get(name)) is not None
            and (config.is_ordered or not only_ordered)
        ]
        work = [(config, self._queues(config, config.read_queues)) for config in configs]
        return await self._in_pool(
            lambda: [self._progress(group, config.name, queues) for config, queues in work]
        )

    def _topics_of(self, group: str) -> list[str]:
        """Those of its offsets; of a group that is there, without what it does not want any more."""
        topics = self._parts.offsets.topics_of(group)
        members = self._parts.members.consumer_group(group)
        if members is None or not members.subscriptions:
            return topics
        return [topic for topic in topics if topic in members.subscriptions]

    def _progress(
        self, group: str, topic: str, queues: dict[MessageQueue, ConsumeQueue | None]
    ) -> ConsumeStats:
        table = {}
        for name, queue in queues.items():
            offset = max(self._parts.offsets.get(group, topic, name.queue_id) or 0, 0)
            last = 0 if queue is None else queue.max_offset
            consumed_ms = 0
            if queue is not None and offset > 0:
                consumed_ms = max(self._parts.store.store_time_at(queue, offset - 1), 0)
            table[name] = QueueProgress(last, offset, offset, consumed_ms)
        return ConsumeStats(table, self._rates.rate(group, topic))

    async def time_spans(self, command: Command, _peer: Peer) -> Answer:
        """QUERY_CONSUME_TIME_SPAN 303."""
        request = decode_fields(TopicGroupRequest, command.fields)
        config = self._topic(request.topic)
        queues = self._queues(config, config.write_queues)
        spans = await self._in_pool(
            lambda: [self._span(request.group, name, queue) for name, queue in queues.items()]
        )
        return Answer(body=encode_time_spans(spans))

    def _span(self, group: str, name: MessageQueue, queue: ConsumeQueue | None) -> TimeSpan:
        if queue is None:
            return TimeSpan(name, -1, -1, -1, 0)
        time_at = self._parts.store.store_time_at
        offset = self._parts.offsets.get(group, name.topic, name.queue_id) or 0
        min_ms = time_at(queue, queue.min_offset)
        delay_ms = 0
        if offset < queue.max_offset:
            next_ms = time_at(queue, max(offset, queue.min_offset))
            delay_ms = self._parts.clock.now_ms() - next_ms
        return TimeSpan(
            name,
            min_ms,
            time_at(queue, queue.max_offset - 1),
            time_at(queue, offset - 1) if offset > 0 else min_ms,
            delay_ms,
        )

    def topics_of_group(self, command: Command, _peer: Peer) -> Answer:
        """QUERY_TOPICS_BY_CONSUMER 343."""
        group = decode_fields(GroupRequest, command.fields).group
        return Answer(body=encode_topic_list(self._parts.offsets.topics_of(group)))

    def subscription(self, command: Command, _peer: Peer) -> Answer:
        """QUERY_SUBSCRIPTION_BY_CONSUMER 345; without a subscription where there is none."""
        request = decode_fields(TopicGroupRequest, command.fields)
        found = self._parts.members.subscription(request.group, request.topic)
        body = {
            "group": request.group,
            "subscriptionData": None if found is None else subscription_json(found),
            "topic": request.topic,
        }
        return Answer(body=fastjson.dumps(body))

    # --- both

    def _topic(self, name: str) -> TopicConfig:
        config = self._parts.topics.get(name)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return config

    def _queues(
        self, config: TopicConfig, count: int
    ) -> dict[MessageQueue, ConsumeQueue | None]:
        name, broker = config.name, self._parts.settings.broker_name
        return {
            MessageQueue(name, broker, number): self._parts.store.queue(name, number)
            for number in range(count)
        }
