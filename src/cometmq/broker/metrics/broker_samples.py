"""The sources of most of RocketMQ's metrics and some own ones: functions that return samples without waiting."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from cometmq.broker.counters.latencies import Latencies
from cometmq.broker.metrics.metric_table import METRICS
from cometmq.broker.parts import Parts
from cometmq.broker.tables.members import Client
from cometmq.codec.metrics_text import Buckets, Sample, Source
from cometmq.kernel import Tally
from cometmq.model.codes import Language, version_name
from cometmq.model.names import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    WHEEL_TIMER_TOPIC,
    is_retry_topic,
    is_system_group,
)

PROCESSORS = (
    "send", "async_put", "pull", "ack", "query_message", "client_manager", "heartbeat", "lite_pull",
    "transaction", "consumer_manager", "admin", "reply",
)  # fmt: skip
_TYPES = {HALF_TOPIC: "transaction", SCHEDULE_TOPIC: "delay", WHEEL_TIMER_TOPIC: "delay"}
_TYPE_ATTRIBUTE = "message.type"
_REMOTING = "remoting"
_OF_SENDS = (_REMOTING, "send_message_v2", "success", "false", "success")
_POP = "CONSUME_POP"


class BrokerSamples:
    """The sources of most metrics of a broker, which are read from its counters and tables."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._counters, self._store = parts.counters, parts.store

    def table(self) -> Mapping[str, Source]:
        """Return the sources of the metrics that this class provides, by name of the metric."""
        return {
            **self._gauges(),
            **self._messages(),
            **{name: self._events_of(name) for name in _EVENTS},
            **{name: self._times_of(name) for name in _TIMES},
            "rocketmq_rpc_latency_milliseconds": self._requests,
            "rocketmq_pop_revive_in_message_total": self._revive_in,
            "rocketmq_producer_connections": self._producers,
            "rocketmq_consumer_connections": self._consumers,
        }

    def _gauges(self) -> Mapping[str, Source]:
        parts, store = self._parts, self._store
        return {
            "rocketmq_processor_watermark": lambda: [((each,), 0) for each in PROCESSORS],
            "rocketmq_broker_permission": lambda: [((), parts.settings.perm)],
            "rocketmq_topic_number": lambda: [((), len(parts.topics.table().topics))],
            "rocketmq_consumer_group_number": lambda: [((), len(parts.groups.table().groups))],
            "rocketmq_storage_size_bytes": lambda: [((), store.max_offset - store.min_offset)],
            "rocketmq_storage_flush_behind_bytes": lambda: [
                ((), store.max_offset - store.flushed_offset)
            ],
            "rocketmq_storage_dispatch_behind_bytes": lambda: [
                ((), store.max_offset - store.dispatched_offset)
            ],
        }

    # --- messages

    def _messages(self) -> Mapping[str, Source]:
        counters = self._counters
        return {
            "rocketmq_messages_in_total": lambda: (
                (self._put_labels(each), each.count) for each in counters.puts.wholes()
            ),
            "rocketmq_throughput_in_total": lambda: (
                (self._put_labels(each), each.size) for each in counters.puts.wholes()
            ),
            "rocketmq_message_size": lambda: map(self._sizes, counters.puts.wholes()),
            "rocketmq_messages_out_total": lambda: (
                (_got_labels(each), each.count) for each in counters.gets.wholes()
            ),
            "rocketmq_throughput_out_total": lambda: (
                (_got_labels(each), each.size) for each in counters.gets.wholes()
            ),
        }

    def _put_labels(self, tally: Tally) -> tuple[str, ...]:
        topic = tally.of.topic
        kind = _TYPES.get(topic)
        if kind is None:
            config = self._parts.topics.get(topic)
            told = "" if config is None else config.attributes.get(_TYPE_ATTRIBUTE, "")
            kind = told.lower() if told and told != "UNSPECIFIED" else "normal"
        return topic, kind, _word(tally.of.is_system)

    def _sizes(self, tally: Tally) -> Sample | None:
        sizes = tally.sizes
        if not sizes:
            return None
        return self._put_labels(tally), Buckets(tuple(accumulate(sizes)), tally.size)

    # --- counted by other parts

    def _events_of(self, name: str) -> Source:
        return lambda: self._counters.events.of(name).items()

    def _times_of(self, name: str) -> Source:
        unit_us = 1_000_000 if name.endswith("_seconds") else 1_000
        bounds_ms = tuple(bound * unit_us / 1_000 for bound in METRICS[name].bounds)

        def samples() -> Iterator[Sample]:
            for labels, latencies in self._counters.events.times_of(name).items():
                yield labels, _buckets(latencies, bounds_ms, unit_us)

        return samples

    def _requests(self) -> Iterator[Sample | None]:
        """Yield the latencies of requests that are counted one by one, and of all stored sends as send_message_v2."""
        name, sends = "rocketmq_rpc_latency_milliseconds", self._counters.sends
        if sends.count:
            yield _OF_SENDS, _buckets(sends, METRICS[name].bounds, 1_000)
        yield from self._times_of(name)()

    def _revive_in(self) -> Iterator[Sample]:
        for kind, table in (("CK", self._counters.check_points), ("ACK", self._counters.acks)):
            for tally in table.wholes():
                yield (tally.of.group, tally.of.topic, kind, "PUT_OK"), tally.count

    # --- clients

    def _producers(self) -> Iterator[Sample]:
        members, seen = self._parts.members, set()
        counts: Counter[tuple[str, ...]] = Counter()
        for group in members.producer_groups():
            for client in members.producers(group):
                if client.peer not in seen:
                    seen.add(client.peer)
                    counts[(*_client_labels(client), _REMOTING)] += 1
        yield from counts.items()

    def _consumers(self) -> Iterator[Sample]:
        for group in self._parts.members.consumer_groups():
            mode = (
                "pop" if group.consume_type == _POP else _MODES.get(group.consume_type, "push")
            )
            is_system = _word(is_system_group(group.name))
            counts = Counter(_client_labels(client) for client in group.clients.values())
            for labels, count in counts.items():
                yield (group.name, *labels, mode, _REMOTING, is_system), count


_MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push"}
_EVENTS = (
    "rocketmq_commit_messages_total", "rocketmq_rollback_messages_total",
    "rocketmq_timer_enqueue_total", "rocketmq_timer_dequeue_total",
    "rocketmq_pop_revive_out_message_total",
    "rocketmq_pop_revive_retry_messages_total",
    "cometmq_consumer_group_changes_total", "cometmq_filter_reads_cut_total",
)  # fmt: skip
_TIMES = (
    "rocketmq_finish_message_latency_milliseconds",
    "rocketmq_delay_message_latency_seconds",
    "rocketmq_topic_create_execution_time_milliseconds",
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    "cometmq_loop_delay_seconds",
    "cometmq_flush_duration_seconds",
)  # fmt: skip


def _got_labels(tally: Tally) -> tuple[str, ...]:
    place = tally.of
    return place.topic, place.group, _word(place.is_system), _word(is_retry_topic(place.topic))


def _client_labels(client: Client) -> tuple[str, str]:
    try:
        language = Language(client.language).name.lower()
    except ValueError:
        language = "other"
    return language, version_name(client.version).lower()


def _word(is_so: bool) -> str:  # noqa: FBT001  Its only argument.
    return "true" if is_so else "false"


def _buckets(latencies: Latencies, bounds_ms: Sequence[float], unit_us: int) -> Buckets:
    return Buckets(latencies.up_to(bounds_ms), latencies.total_us / unit_us)
