"""Requests for the progress of topics and groups, statistics and queue entries.

Codes 202, 208, 300, 303, 315, 317, 321, 343, 345.
"""

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.statistics.broker_stats import BrokerStats
from cometmq.broker.statistics.queue_entries import QueueEntries
from cometmq.broker.statistics.rates import SAMPLE_SECONDS, ConsumeRateSamples
from cometmq.broker.statistics.statistics import ProgressStatistics
from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import subscription_json
from cometmq.codec.bodies.queue_entries import encode_queue_look
from cometmq.codec.bodies.stats import (
    ConsumeStats,
    encode_all_consume_stats,
    encode_consume_stats,
    encode_group_list,
    encode_stats_windows,
    encode_time_spans,
    encode_topic_stats,
)
from cometmq.codec.bodies.topic_list import encode_topic_list
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import (
    AllConsumeStatsRequest,
    BrokerStatsRequest,
    ConsumeStatsRequest,
    QueueEntriesRequest,
    TopicGroupRequest,
)
from cometmq.codec.headers.topic import GroupRequest, TopicRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import NEVER
from cometmq.steps.steps import Steps, elsewhere


class StatisticsHandler(Feature):
    """Handles requests for the progress of topics and groups, and samples offsets and counters for them."""

    def __init__(self, parts: Parts) -> None:
        self._address, self._groups = parts.address, parts.groups
        self._offsets, self._members = parts.offsets, parts.members
        self._counters = parts.counters
        self._rates = ConsumeRateSamples(parts.offsets, parts.clock)
        self._statistics = ProgressStatistics(parts, rates=self._rates)
        self._broker_stats = BrokerStats(parts)
        parts.topics.on_change.append(self._broker_stats.forget_topic)
        self._entries = QueueEntries(parts)
        self._machines = Machines(parts.world, "statistics")
        self.answers = {
            RequestCode.GET_TOPIC_STATS_INFO: self.topic,
            RequestCode.GET_CONSUME_STATS: self.group,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.groups_of_topic,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
            RequestCode.VIEW_BROKER_STATS_DATA: self.broker_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self.all_groups,
            RequestCode.QUERY_CONSUME_QUEUE: self.entries,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of_group,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
        }

    async def start(self) -> None:
        """Start to sample rates and growth."""
        rates = self._machines.keep("rates", self._sample_rates, period_seconds=SAMPLE_SECONDS)
        growth = self._machines.keep(
            "growth",
            self._sample_growth,
            first_seconds=SAMPLE_SECONDS,
            period_seconds=SAMPLE_SECONDS,
        )
        self._offsets.saver.on_dirty.append(rates.wake)
        self._counters.on_work.append(growth.wake)

    async def close(self) -> None:
        """Stop sampling."""
        await self._machines.close()

    def _sample_rates(self) -> float:
        is_changing = self._rates.sample()
        return SAMPLE_SECONDS if is_changing or self._offsets.saver.is_dirty else NEVER

    def _sample_growth(self) -> Steps[float]:
        yield from self._broker_stats.sample()
        is_over = self._counters.is_quiet and not self._counters.fresh
        return NEVER if is_over else SAMPLE_SECONDS

    def topic(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Return the bounds of a topic's queues and its put rate (GET_TOPIC_STATS_INFO 202)."""
        name = decode_fields(TopicRequest, command.fields).topic
        stats = yield from self._statistics.of_topic(name)
        return Answer(body=encode_topic_stats(stats))

    def groups_of_topic(self, command: Command, _peer: Peer) -> Answer:
        """Return the groups with offsets in a topic or subscribed members (QUERY_TOPIC_CONSUME_BY_WHO 300)."""
        topic = decode_fields(TopicRequest, command.fields).topic
        groups = {*self._offsets.groups_of(topic), *self._members.groups_of(topic)}
        return Answer(body=encode_group_list(groups))

    def group(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Return the progress of a group in the topics that the request names, or all that it consumes (GET_CONSUME_STATS 208)."""
        request = decode_fields(ConsumeStatsRequest, command.fields)
        listed = [name for name in (request.topic_list or "").split(";") if name]
        named = listed or ([request.topic] if request.topic else None)
        stats = yield from self._statistics.of_group(request.consumer_group, named)
        queues = {queue: progress for each in stats for queue, progress in each.queues.items()}
        total = ConsumeStats(queues, sum(each.rate for each in stats))
        return Answer(body=encode_consume_stats(total))

    def all_groups(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Return the progress of all groups, in all or only in ordered topics (GET_BROKER_CONSUME_STATS 317)."""
        only_ordered = decode_fields(AllConsumeStatsRequest, command.fields).is_order
        body = yield from self._progress_of_all(only_ordered=only_ordered)
        return Answer(body=body)

    def _progress_of_all(self, *, only_ordered: bool) -> Steps[bytes]:
        """Encode the progress of all groups in a thread, because it may have megabytes."""
        names = list(self._groups.table().groups)
        groups = yield from self._statistics.of_groups(names, only_ordered=only_ordered)
        return (yield from elsewhere(lambda: encode_all_consume_stats(self._address, groups)))

    def time_spans(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Return the time spans of the messages in a topic's queues (QUERY_CONSUME_TIME_SPAN 303)."""
        request = decode_fields(TopicGroupRequest, command.fields)
        spans = yield from self._statistics.time_spans(request.topic, request.group)
        return Answer(body=encode_time_spans(spans))

    def broker_stats(self, command: Command, _peer: Peer) -> Answer:
        """Return the growth of a statistic in the last minute, hour and day (VIEW_BROKER_STATS_DATA 315)."""
        request = decode_fields(BrokerStatsRequest, command.fields)
        minute, hour, day = self._broker_stats.windows(request)
        return Answer(body=encode_stats_windows(minute=minute, hour=hour, day=day))

    def entries(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Return entries of a queue (QUERY_CONSUME_QUEUE 321); if there are none at the index, a remark says so."""
        request = decode_fields(QueueEntriesRequest, command.fields)
        look = yield from self._entries.look(request)
        is_there = look.min_offset <= request.index < look.max_offset
        name = f"{request.queue_id}@{request.topic}"
        remark = None if is_there else f"Index {request.index} of {name} is not exist!"
        return Answer(remark=remark, body=encode_queue_look(look))

    def topics_of_group(self, command: Command, _peer: Peer) -> Answer:
        """Return the topics in which a group has offsets (QUERY_TOPICS_BY_CONSUMER 343)."""
        group = decode_fields(GroupRequest, command.fields).group
        return Answer(body=encode_topic_list(self._offsets.topics_of(group)))

    def subscription(self, command: Command, _peer: Peer) -> Answer:
        """Return a group's subscription to a topic, or null (QUERY_SUBSCRIPTION_BY_CONSUMER 345)."""
        request = decode_fields(TopicGroupRequest, command.fields)
        found = self._members.subscription(request.group, request.topic)
        body = {
            "group": request.group,
            "subscriptionData": None if found is None else subscription_json(found),
            "topic": request.topic,
        }
        return Answer(body=fastjson.dumps(body))
