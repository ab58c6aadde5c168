"""Requests for the progress of topics and groups, statistics, queue entries, and the runtime numbers of a broker.

Codes 28, 202, 208, 300, 303, 315, 317, 321, 343, 345. Most keys of the runtime numbers (28), which consoles and mqadmin
display, are those of AdminBrokerProcessor.prepareRuntimeInfo and StoreStatsService of RocketMQ 5.3.3. Numbers of parts
that this design does not have (such as thread pools and their queues) are usually 0, for tools that expect them.
"""

from collections.abc import Callable, Mapping, Sequence
from json import dumps

from cometmq.broker.inner.redelivery import dispatched_record
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.statistics.broker_stats import BrokerStats
from cometmq.broker.statistics.queues import QueueEntries, UnreadQueues
from cometmq.broker.statistics.statistics import (
    SAMPLE_SECONDS,
    ConsumeRateSamples,
    ProgressStatistics,
)
from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import subscription_json
from cometmq.codec.bodies.kv import encode_kv_table
from cometmq.codec.bodies.queue_entries import encode_queue_look
from cometmq.codec.bodies.stats import (
    ConsumeStats,
    StatsWindow,
    encode_all_consume_stats,
    encode_consume_stats,
    encode_group_list,
    encode_stats_windows,
    encode_time_spans,
    encode_topic_stats,
)
from cometmq.codec.bodies.topic_list import encode_topic_list
from cometmq.codec.headers.console import (
    AllConsumeStatsRequest,
    BrokerStatsRequest,
    ConsumeStatsRequest,
    QueueEntriesRequest,
    TopicGroupRequest,
)
from cometmq.codec.headers.topic import GroupRequest, TopicRequest
from cometmq.codec.record import decode_record
from cometmq.model.codes import VERSION, VERSION_DESCRIPTION, RequestCode
from cometmq.model.errors import CodecError
from cometmq.net.answer import Answer
from cometmq.net.answering import as_is, body_of, by_code, by_fields
from cometmq.net.requests import Answers
from cometmq.process.build import this_build
from cometmq.process.descriptors import limit
from cometmq.process.vitals import descriptors_in_use
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import NEVER
from cometmq.steps.shared import SharedSteps
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.disk import Space
from cometmq.store.message_store import MessageStore


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
        self.answers = self._handlers()

    def _handlers(self) -> Answers:
        statistics, offsets = self._statistics, self._offsets
        return {
            RequestCode.GET_TOPIC_STATS_INFO: by_fields(
                TopicRequest,
                lambda request: statistics.of_topic(request.topic),
                body_of(encode_topic_stats),
            ),
            RequestCode.GET_CONSUME_STATS: by_fields(
                ConsumeStatsRequest, self._group, body_of(encode_consume_stats)
            ),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: by_fields(
                TopicRequest, self._groups_of_topic, body_of(encode_group_list)
            ),
            RequestCode.QUERY_CONSUME_TIME_SPAN: by_fields(
                TopicGroupRequest,
                lambda request: statistics.time_spans(request.topic, request.group),
                body_of(encode_time_spans),
            ),
            RequestCode.VIEW_BROKER_STATS_DATA: by_fields(
                BrokerStatsRequest, self._broker_stats.windows, body_of(_encode_windows)
            ),
            RequestCode.GET_BROKER_CONSUME_STATS: by_fields(
                AllConsumeStatsRequest, self._all_groups, body_of(bytes)
            ),
            RequestCode.QUERY_CONSUME_QUEUE: by_fields(
                QueueEntriesRequest, self._entries_of, as_is
            ),
            RequestCode.QUERY_TOPICS_BY_CONSUMER: by_fields(
                GroupRequest,
                lambda request: offsets.topics_of(request.group),
                body_of(encode_topic_list),
            ),
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: by_fields(
                TopicGroupRequest, self._subscription, as_is
            ),
        }

    async def start(self) -> None:
        """Start to sample the offsets of groups and the growth of counters."""
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

    def _groups_of_topic(self, request: TopicRequest) -> set[str]:
        """Return the groups that have offsets in a topic, or members that subscribe to it."""
        topic = request.topic
        return {*self._offsets.groups_of(topic), *self._members.groups_of(topic)}

    def _group(self, request: ConsumeStatsRequest) -> Steps[ConsumeStats]:
        """Return the progress of a group in the topics that the request names, or in all that the group consumes."""
        listed = [name for name in (request.topic_list or "").split(";") if name]
        named = listed or ([request.topic] if request.topic else None)
        stats = yield from self._statistics.of_group(request.consumer_group, named)
        queues = {queue: progress for each in stats for queue, progress in each.queues.items()}
        return ConsumeStats(queues, sum(each.rate for each in stats))

    def _all_groups(self, request: AllConsumeStatsRequest) -> Steps[bytes]:
        """Encode the progress of all groups, in all or only in ordered topics, in a thread: it may have megabytes."""
        names = list(self._groups.table().groups)
        groups = yield from self._statistics.of_groups(names, only_ordered=request.is_order)
        return (yield from elsewhere(lambda: encode_all_consume_stats(self._address, groups)))

    def _entries_of(self, request: QueueEntriesRequest) -> Steps[Answer]:
        """Answer with entries of a queue; if there are none at the index, a remark says so."""
        look = yield from self._entries.look(request)
        is_there = look.min_offset <= request.index < look.max_offset
        name = f"{request.queue_id}@{request.topic}"
        remark = None if is_there else f"Index {request.index} of {name} is not exist!"
        return Answer(remark=remark, body=encode_queue_look(look))

    def _subscription(self, request: TopicGroupRequest) -> Answer:
        """Answer with a group's subscription to a topic, or null."""
        found = self._members.subscription(request.group, request.topic)
        body = {
            "group": request.group,
            "subscriptionData": None if found is None else subscription_json(found),
            "topic": request.topic,
        }
        return Answer(body=fastjson.dumps(body))


def _encode_windows(windows: tuple[StatsWindow, StatsWindow, StatsWindow]) -> bytes:
    minute, hour, day = windows
    return encode_stats_windows(minute=minute, hour=hour, day=day)


_POOLS = ("send", "pull", "litePull", "query", "ack")
_STEP, _POWERS = 1024, " KMGTPE"
# Java's number of free buffers if it has no pool: Integer.MAX_VALUE.
_NO_POOL = 0x7FFFFFFF
_GIB = 1 << 30


class RuntimeHandler:
    """Handles GET_BROKER_RUNTIME_INFO: numbers of the store, its disks, rates and features, for consoles."""

    def __init__(
        self,
        parts: Parts,
        *,
        facts: Sequence[Callable[[], Mapping[str, str]]] = (),
    ) -> None:
        """Each of `facts` returns numbers of a feature of the broker."""
        self._facts = facts
        self._body = SharedSteps(parts.world, self._make)
        self._settings, self._store = parts.settings, parts.store
        self._counters, self._clock = parts.counters, parts.clock
        self._started_ms = parts.clock.now_ms()
        self._unread = UnreadQueues(parts)
        self.answers: Answers = {
            # As a key-value table in JSON.
            RequestCode.GET_BROKER_RUNTIME_INFO: by_code(self._body.result, body_of(bytes)),
        }

    def _make(self) -> Steps[bytes]:
        earliest = yield from earliest_time(self._store)
        unread = yield from self._unread.counts()
        table = {
            "earliestMessageTimeStamp": str(earliest),
            **self._identity(),
            **self._totals(),
            **self._rates(),
            **self._positions(),
            **self._disk(),
        }
        for facts in self._facts:
            table |= facts()
        # Java's brokers do not have the following three.
        table["messagesBehindReadQueues"] = dumps(unread)
        used = descriptors_in_use()
        table |= {} if used is None else {"openFileDescriptors": str(used)}
        table["maxFileDescriptors"] = str(limit())
        for pool in _POOLS:
            table[f"{pool}ThreadPoolQueueSize"] = "0"
            table[f"{pool}ThreadPoolQueueCapacity"] = "0"
            table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return encode_kv_table(dict(sorted(table.items())))

    def _identity(self) -> dict[str, str]:
        build = this_build()
        return {
            "brokerActive": "true",
            "brokerVersionDesc": VERSION_DESCRIPTION,
            "brokerVersion": str(VERSION),
            # Only CometMQ's brokers have these three; they identify brokers in a mixed cluster and during an upgrade.
            "cometmqVersion": build.version,
            "cometmqKernel": build.kernel,
            "cometmqPython": build.python,
            "bootTimestamp": str(self._started_ms),
            "runtime": _age_text(self._clock.now_ms() - self._started_ms),
            "startAcceptSendRequestTimeStamp": str(self._settings.accept_sends_from_ms),
        }

    def _totals(self) -> dict[str, str]:
        counters = self._counters
        latencies, (today, before) = counters.put_latencies, (
            counters.at_midnights.today, counters.at_midnights.yesterday,
        )  # fmt: skip
        put, got = counters.of_today
        average = counters.put_size / counters.put_count if counters.put_count else 0.0
        return {
            # Totals start with the process.
            "msgPutTotalYesterdayMorning": str(before[0]),
            "msgPutTotalTodayMorning": str(today[0]),
            "msgPutTotalTodayNow": str(put),
            "msgGetTotalYesterdayMorning": str(before[1]),
            "msgGetTotalTodayMorning": str(today[1]),
            "msgGetTotalTodayNow": str(got),
            "putMessageTimesTotal": str(counters.put_count),
            "putMessageFailedTimes": str(counters.put_failed),
            "putMessageSizeTotal": str(counters.put_size),
            "putMessageAverageSize": str(average),
            "putMessageEntireTimeMax": str(latencies.max_us // 1000),
            "getMessageEntireTimeMax": str(counters.get_max_us // 1000),
            "putMessageDistributeTime": latencies.distribution(),
            "putLatency99": f"{latencies.percentile_ms(0.99):.2f}",
            "putLatency999": f"{latencies.percentile_ms(0.999):.2f}",
        }

    def _rates(self) -> dict[str, str]:
        rates = self._counters.rates(self._clock.monotonic())
        names = {
            "put": "putTps", "found": "getFoundTps", "missed": "getMissTps",
            "get": "getTransferredTps",
        }  # fmt: skip
        table = {names[kind]: _three(values) for kind, values in rates.items()}
        both = tuple(sum(pair) for pair in zip(rates["found"], rates["missed"], strict=True))
        return {**table, "getTotalTps": _three(both)}

    def _positions(self) -> dict[str, str]:
        store = self._store
        return {
            "commitLogMinOffset": str(store.min_offset),
            "commitLogMaxOffset": str(store.max_offset),
            "dispatchBehindBytes": str(store.max_offset - store.dispatched_offset),
            "dispatchMaxBuffer": "0",
            "pageCacheLockTimeMills": "0",
            "remainHowManyDataToFlush": _size(store.max_offset - store.flushed_offset),
            "remainHowManyDataToCommit": _size(store.max_offset - store.positions.committed),
            "remainTransientStoreBufferNumbs": str(_NO_POOL),
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": "0",
            "storeRefusal": store.refusal or "",
        }

    def _disk(self) -> dict[str, str]:
        room = self._store.room
        total, free = room.log.total / _GIB, room.log.available / _GIB
        return {
            "commitLogDiskRatio": _ratio(room.log),
            "consumeQueueDiskRatio": _ratio(room.queues),
            "commitLogDirCapacity": f"Total : {total:.1f} GiB, Free : {free:.1f} GiB.",
            **{
                f"commitLogDiskRatio_{path}": _ratio(space)
                for path, space in room.spaces.items()
            },
        }


def earliest_time(store: MessageStore) -> Steps[int]:
    """Return the store time of the oldest message, epoch ms; -1 if there is none or it cannot be decoded."""
    content = yield from dispatched_record(store, store.min_offset)
    try:
        return -1 if content is None else decode_record(content).store_timestamp
    except CodecError:
        return -1


def _ratio(space: Space) -> str:
    return f"{space.used / max(space.total, 1):.4f}"


def _size(count: int) -> str:
    """Format a number of bytes as Java's humanReadableByteCount does."""
    size, power = float(count), 0
    while size >= _STEP and power < len(_POWERS) - 1:
        size, power = size / _STEP, power + 1
    return f"{size:.1f} {_POWERS[power]}iB" if power else f"{count} B"


def _three(values: tuple[float, ...]) -> str:
    """Format rates of 10, 60 and 600 seconds as Java does."""
    return " ".join(f"{value:.4f}" for value in values)


def _age_text(age_ms: int) -> str:
    seconds = age_ms // 1000
    return (
        f"[ {seconds // 86400} days, {seconds // 3600 % 24} hours, "
        f"{seconds // 60 % 60} minutes, {seconds % 60} seconds ]"
    )
