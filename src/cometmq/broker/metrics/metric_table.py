"""All metrics of a broker: name, unit, labels and buckets, as in a broker of RocketMQ 5.3.3.

Recorded from such a broker: tests/golden/metrics/broker-5.3.3.txt. The page adds the labels that all of them have (cluster,
node_id, node_type, otel_scope_name).
"""

from typing import NamedTuple

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


class Metric(NamedTuple):
    """The description of a metric.

    Attributes:
        kind: GAUGE, COUNTER or HISTOGRAM.
        labels: Names of the labels, in the order of their values.
        says: The text for `# HELP`.
        bounds: Bounds of a histogram's buckets, in its unit.
        fixed: Labels with a constant value.
    """

    kind: str
    labels: tuple[str, ...]
    says: str
    bounds: tuple[int, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()


_STORE = (("storage_medium", "disk"), ("storage_type", "local"))
_LAG = ("consumer_group", "topic", "is_retry", "is_system")
_PUT = ("topic", "message_type", "is_system")
_GOT = ("topic", "consumer_group", "is_system", "is_retry")
_REVIVE_IN = ("consumer_group", "topic", "revive_message_type", "put_status")
_REVIVE_OUT = ("consumer_group", "topic", "revive_message_type", "queue_id")
_RPC = ("protocol_type", "request_code", "response_code", "is_long_polling", "result")
_SECONDS_OF_DELAY = (60, 600, 3_600, 43_200, 86_400, 259_200)
_MS_OF_RPC = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
_MS_OF_MAKING = (10, 100, 1_000, 3_000, 5_000)
SIZES = (1_024, 4_096, 524_288, 1_048_576, 2_097_152, 4_194_304)

METRICS = {
    "rocketmq_processor_watermark": Metric(
        GAUGE,
        ("processor",),
        "Requests that wait for a thread; this broker has none, so always 0.",
    ),
    "rocketmq_broker_permission": Metric(GAUGE, (), "6 read and write, 4 read, 2 write."),
    "rocketmq_topic_number": Metric(GAUGE, (), "Topics."),
    "rocketmq_consumer_group_number": Metric(GAUGE, (), "Consumer groups."),
    "rocketmq_messages_in_total": Metric(COUNTER, _PUT, "Messages stored."),
    "rocketmq_throughput_in_total": Metric(COUNTER, _PUT, "Bytes of their records."),
    "rocketmq_messages_out_total": Metric(COUNTER, _GOT, "Messages handed out."),
    "rocketmq_throughput_out_total": Metric(COUNTER, _GOT, "Bytes of their records."),
    "rocketmq_message_size": Metric(HISTOGRAM, _PUT, "Bytes of a stored record.", SIZES),
    "rocketmq_topic_create_execution_time_milliseconds": Metric(
        HISTOGRAM,
        ("invocation_status", "is_system"),
        "How long a topic took to be made.",
        _MS_OF_MAKING,
    ),
    "rocketmq_consumer_group_create_execution_time_milliseconds": Metric(
        HISTOGRAM, ("invocation_status",), "How long a group took to be made.", _MS_OF_MAKING
    ),
    "rocketmq_producer_connections": Metric(
        GAUGE, ("language", "version", "protocol_type"), "Clients that produce."
    ),
    "rocketmq_consumer_connections": Metric(
        GAUGE,
        ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
        "Clients of a group.",
    ),
    "rocketmq_consumer_lag_messages": Metric(
        GAUGE, _LAG, "Messages that a group has not consumed."
    ),
    "rocketmq_consumer_lag_latency_milliseconds": Metric(
        GAUGE, _LAG, "How old the oldest of these is, ms."
    ),
    "rocketmq_consumer_inflight_messages": Metric(
        GAUGE, _LAG, "Messages that were handed out and not acknowledged."
    ),
    "rocketmq_consumer_queueing_latency_milliseconds": Metric(
        GAUGE, _LAG, "How old the oldest message is that was not handed out, ms."
    ),
    "rocketmq_consumer_ready_messages": Metric(
        GAUGE, _LAG, "Messages that were not handed out."
    ),
    "rocketmq_send_to_dlq_messages_total": Metric(
        COUNTER, ("consumer_group", "topic", "is_system"), "Messages that became dead letters."
    ),
    "rocketmq_commit_messages_total": Metric(COUNTER, ("topic",), "Transactions committed."),
    "rocketmq_rollback_messages_total": Metric(
        COUNTER, ("topic",), "Transactions rolled back."
    ),
    "rocketmq_finish_message_latency_milliseconds": Metric(
        HISTOGRAM,
        ("topic",),
        "From a half message to its commit.",
        (5, 60, 600, 3_600, 43_200, 86_400),
    ),
    "rocketmq_half_messages": Metric(GAUGE, ("topic",), "Transactions that are open."),
    "rocketmq_rpc_latency_milliseconds": Metric(
        HISTOGRAM, _RPC, "How long requests took.", _MS_OF_RPC
    ),
    "rocketmq_storage_size_bytes": Metric(GAUGE, (), "Bytes of the log.", fixed=_STORE),
    "rocketmq_storage_flush_behind_bytes": Metric(
        GAUGE, (), "Bytes that are not on the device yet.", fixed=_STORE
    ),
    "rocketmq_storage_dispatch_behind_bytes": Metric(
        GAUGE, (), "Bytes that consumers cannot see yet.", fixed=_STORE
    ),
    "rocketmq_storage_message_reserve_time_milliseconds": Metric(
        GAUGE, (), "How old the oldest message is, ms.", fixed=_STORE
    ),
    "rocketmq_timer_enqueue_lag": Metric(
        GAUGE, (), "Timed messages that are not in the wheel yet.", fixed=_STORE
    ),
    "rocketmq_timer_dequeue_latency_milliseconds": Metric(
        GAUGE, (), "How late the wheel is, ms.", fixed=_STORE
    ),
    "rocketmq_timing_messages": Metric(
        GAUGE, ("topic",), "Timed messages that wait.", fixed=_STORE
    ),
    "rocketmq_timer_enqueue_total": Metric(
        COUNTER, ("topic",), "Messages that came into the wheel.", fixed=_STORE
    ),
    "rocketmq_timer_dequeue_total": Metric(
        COUNTER, ("topic",), "Messages that left the wheel.", fixed=_STORE
    ),
    "rocketmq_delay_message_latency_seconds": Metric(
        HISTOGRAM,
        ("topic",),
        "For how long messages are to wait, s.",
        _SECONDS_OF_DELAY,
        _STORE,
    ),
    "rocketmq_pop_revive_in_message_total": Metric(
        COUNTER, _REVIVE_IN, "Check points and acknowledgements written to the revive topic."
    ),
    "rocketmq_pop_revive_out_message_total": Metric(
        COUNTER, _REVIVE_OUT, "Check points whose time was over."
    ),
    "rocketmq_pop_revive_retry_messages_total": Metric(
        COUNTER, ("consumer_group", "topic", "put_status"), "Popped messages that come again."
    ),
    "rocketmq_pop_checkpoint_buffer_size": Metric(GAUGE, (), "Check points that are open."),
}

# Metrics of 5.3.3 that this broker does not have, and why; also in docs/operate/monitor.md, and a test compares.
NOT_HERE = {
    "rocketmq_pop_buffer_scan_time_consume_milliseconds": "no buffer is scanned: pop's records are found by time",
    "rocketmq_pop_offset_buffer_size": "offsets of pops are part of its check points",
    "rocketmq_pop_revive_lag_milliseconds": "what falls due is found by time, not by reading a topic",
    "rocketmq_timer_enqueue_latency_milliseconds": "the first that waits is not read for it; the lag says how many",
    "rocketmq_timer_dequeue_lag": "what is due is delivered in the same step; the latency says how late",
    "rocketmq_pop_revive_latency_milliseconds": "what falls due is found by time, not by reading a topic",
    "rocketmq_timer_message_snapshot": "the wheel is not walked through for it",
}
