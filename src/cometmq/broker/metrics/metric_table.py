"""The metrics of this broker: those of RocketMQ 5.3.3 (METRICS_OF_JAVA), and its own, named `cometmq_...`.

RocketMQ's have the names, labels and buckets of a broker of 5.3.3, which has some more (NOT_HERE). Recorded from such a
broker: tests/golden/metrics/broker-5.3.3.txt. The page adds the labels that all of them have (cluster, node_id, node_type,
otel_scope_name, and those of metricsLabel), and `broker_id` and `role` to those that are not RocketMQ's.
"""

from cometmq.codec.metrics_text import COUNTER, GAUGE, HISTOGRAM, Metric
from cometmq.process.vitals import VITALS

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

METRICS_OF_JAVA = {
    "rocketmq_processor_watermark": Metric(
        GAUGE,
        ("processor",),
        "Requests that wait for a thread; always 0, because this broker has no thread pools.",
    ),
    "rocketmq_broker_permission": Metric(
        GAUGE, (), "Permission of the broker: 6 read and write, 4 read, 2 write."
    ),
    "rocketmq_topic_number": Metric(GAUGE, (), "Number of topics."),
    "rocketmq_consumer_group_number": Metric(GAUGE, (), "Number of consumer groups."),
    "rocketmq_messages_in_total": Metric(COUNTER, _PUT, "Messages stored."),
    "rocketmq_throughput_in_total": Metric(
        COUNTER, _PUT, "Bytes of the records of these messages."
    ),
    "rocketmq_messages_out_total": Metric(COUNTER, _GOT, "Messages returned to consumers."),
    "rocketmq_throughput_out_total": Metric(
        COUNTER, _GOT, "Bytes of the records of these messages."
    ),
    "rocketmq_message_size": Metric(HISTOGRAM, _PUT, "Bytes of a stored record.", SIZES),
    "rocketmq_topic_create_execution_time_milliseconds": Metric(
        HISTOGRAM,
        ("invocation_status", "is_system"),
        "Time to create a topic, ms.",
        _MS_OF_MAKING,
    ),
    "rocketmq_consumer_group_create_execution_time_milliseconds": Metric(
        HISTOGRAM, ("invocation_status",), "Time to create a group, ms.", _MS_OF_MAKING
    ),
    "rocketmq_producer_connections": Metric(
        GAUGE, ("language", "version", "protocol_type"), "Connected producers."
    ),
    "rocketmq_consumer_connections": Metric(
        GAUGE,
        ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
        "Connected members of a group.",
    ),
    "rocketmq_consumer_lag_messages": Metric(
        GAUGE, _LAG, "Messages that a group has not consumed."
    ),
    "rocketmq_consumer_lag_latency_milliseconds": Metric(
        GAUGE, _LAG, "Age of the oldest message that a group has not consumed, ms."
    ),
    "rocketmq_consumer_inflight_messages": Metric(
        GAUGE, _LAG, "Messages that were returned to consumers but not acknowledged."
    ),
    "rocketmq_consumer_queueing_latency_milliseconds": Metric(
        GAUGE, _LAG, "Age of the oldest message that was not returned to a consumer, ms."
    ),
    "rocketmq_consumer_ready_messages": Metric(
        GAUGE, _LAG, "Messages that were not returned to a consumer."
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
        "Time from a half message to its commit.",
        (5, 60, 600, 3_600, 43_200, 86_400),
    ),
    "rocketmq_half_messages": Metric(GAUGE, ("topic",), "Open transactions."),
    "rocketmq_rpc_latency_milliseconds": Metric(
        HISTOGRAM, _RPC, "Duration of requests, ms.", _MS_OF_RPC
    ),
    "rocketmq_storage_size_bytes": Metric(GAUGE, (), "Bytes of the log.", fixed=_STORE),
    "rocketmq_storage_flush_behind_bytes": Metric(
        GAUGE, (), "Bytes of the log that are not flushed to the device yet.", fixed=_STORE
    ),
    "rocketmq_storage_dispatch_behind_bytes": Metric(
        GAUGE, (), "Bytes of the log that are not visible to consumers yet.", fixed=_STORE
    ),
    "rocketmq_storage_message_reserve_time_milliseconds": Metric(
        GAUGE, (), "Age of the oldest message, ms.", fixed=_STORE
    ),
    "rocketmq_timer_enqueue_lag": Metric(
        GAUGE, (), "Timed messages that are not in the timer wheel yet.", fixed=_STORE
    ),
    "rocketmq_timer_dequeue_latency_milliseconds": Metric(
        GAUGE, (), "Delay of the timer wheel, ms.", fixed=_STORE
    ),
    "rocketmq_timing_messages": Metric(
        GAUGE, ("topic",), "Timed messages that wait.", fixed=_STORE
    ),
    "rocketmq_timer_enqueue_total": Metric(
        COUNTER, ("topic",), "Messages put into the timer wheel.", fixed=_STORE
    ),
    "rocketmq_timer_dequeue_total": Metric(
        COUNTER, ("topic",), "Messages removed from the timer wheel.", fixed=_STORE
    ),
    "rocketmq_delay_message_latency_seconds": Metric(
        HISTOGRAM,
        ("topic",),
        "Requested delay of delayed messages, s.",
        _SECONDS_OF_DELAY,
        _STORE,
    ),
    "rocketmq_pop_revive_in_message_total": Metric(
        COUNTER, _REVIVE_IN, "Check points and acknowledgements written to the revive topic."
    ),
    "rocketmq_pop_revive_out_message_total": Metric(
        COUNTER, _REVIVE_OUT, "Check points whose invisible time was over."
    ),
    "rocketmq_pop_revive_retry_messages_total": Metric(
        COUNTER,
        ("consumer_group", "topic", "put_status"),
        "Popped messages that are redelivered.",
    ),
    "rocketmq_pop_checkpoint_buffer_size": Metric(GAUGE, (), "Open check points."),
}

_GROUP, _SLAVE, _MEMBER = ("consumer_group",), ("slave",), ("member",)
_SECONDS_OF_WORK = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)

OWN_METRICS = {
    **VITALS,
    "cometmq_loop_delay_seconds": Metric(
        HISTOGRAM,
        (),
        "How late a timer of the event loop was, 20 times per second; requests wait as long.",
        _SECONDS_OF_WORK,
    ),
    "cometmq_connections": Metric(GAUGE, (), "Open connections to the broker's port."),
    "cometmq_limit_refusals_total": Metric(
        COUNTER, ("limit",), "Requests or connections that were refused because of a limit."
    ),
    "cometmq_filter_reads_cut_total": Metric(
        COUNTER,
        ("consumer_group", "topic"),
        "Reads through an SQL92 filter that ended before enough messages passed, because their time or count was over.",
    ),
    "cometmq_store_refuses_writes": Metric(
        GAUGE, ("reason",), "1 while messages are refused for this reason, else 0."
    ),
    "cometmq_flush_duration_seconds": Metric(
        HISTOGRAM, (), "Duration of flushes of the log to the device.", _SECONDS_OF_WORK
    ),
    "cometmq_disk_used_bytes": Metric(
        GAUGE, ("directory",), "Bytes in use in the file system of a directory of the store."
    ),
    "cometmq_disk_free_bytes": Metric(
        GAUGE, ("directory",), "Bytes that the broker can still use there."
    ),
    "cometmq_disk_limit_ratio": Metric(
        GAUGE,
        ("limit",),
        "Used share of a file system from which expired files are deleted (delete), other ones too (force), or messages are refused (refuse).",
    ),
    "cometmq_replication_slaves": Metric(GAUGE, (), "Slaves that copy the log of this master."),
    "cometmq_replication_in_sync": Metric(
        GAUGE, _SLAVE, "1 if a slave lacks less of the log than haMaxGapNotInSync, else 0."
    ),
    "cometmq_replication_gap_bytes": Metric(
        GAUGE, _SLAVE, "Bytes of the master's log that a slave has not acknowledged."
    ),
    "cometmq_replication_gap_seconds": Metric(
        GAUGE, _SLAVE, "Time since a slave had all of the log that its master had then."
    ),
    "cometmq_replication_connected": Metric(
        GAUGE, (), "1 while this slave is connected to its master and the logs fit, else 0."
    ),
    "cometmq_replication_stopped": Metric(
        GAUGE, (), "1 if this slave stopped copying until an operator acts, else 0."
    ),
    "cometmq_replication_silence_seconds": Metric(
        GAUGE, (), "Time since this slave received something from its master."
    ),
    "cometmq_elected_term": Metric(
        GAUGE, (), "Latest term that this member of a group that elects its leader knows."
    ),
    "cometmq_elected_role": Metric(
        GAUGE,
        ("elected_role",),
        "1 for the role of this member: leader, follower, candidate, or stopped because its disk failed; else 0.",
    ),
    "cometmq_elected_leader_known": Metric(
        GAUGE, (), "1 while this member knows the leader of its term, else 0."
    ),
    "cometmq_elected_elections_total": Metric(
        COUNTER,
        (),
        "Times that this member learned of a new term, which begins with an election.",
    ),
    "cometmq_elected_lease_seconds": Metric(
        GAUGE,
        (),
        "Time for which this leader may acknowledge messages if no other member answers it.",
    ),
    "cometmq_elected_member_connected": Metric(
        GAUGE, _MEMBER, "1 while this member is connected to another one, else 0."
    ),
    "cometmq_elected_lag_bytes": Metric(
        GAUGE, _MEMBER, "Bytes of the leader's log that another member has not acknowledged."
    ),
    "cometmq_consumer_members": Metric(
        GAUGE, _GROUP, "Members of a group that are connected here; 0 for a group without any."
    ),
    "cometmq_consumer_group_changes_total": Metric(
        COUNTER, _GROUP, "Changes of a group's members or topics, after which it rebalances."
    ),
    "cometmq_consumer_offsets": Metric(
        GAUGE,
        ("consumer_group", "topic"),
        "Sum over all queues of the offset up to which a group has consumed; it grows as the group makes progress.",
    ),
    "cometmq_dead_letters": Metric(
        GAUGE, _GROUP, "Dead letters that a group has; 0 for a group without any."
    ),
    "cometmq_delayed_messages": Metric(
        GAUGE, ("level",), "Messages that wait for the end of a delay level."
    ),
    "cometmq_oldest_half_message_seconds": Metric(
        GAUGE, (), "Time since the oldest open transaction was begun; 0 without any."
    ),
    "cometmq_certificate_expiry_seconds": Metric(
        GAUGE, (), "When the certificate of the broker's port expires, seconds since 1970."
    ),
}
METRICS: dict[str, Metric] = {**METRICS_OF_JAVA, **OWN_METRICS}


def metrics_of(broker_id: int, *, is_slave: bool) -> dict[str, Metric]:
    """Return all metrics, with the labels `broker_id` and `role` (master or slave) for those that are not RocketMQ's."""
    identity = (("broker_id", str(broker_id)), ("role", "slave" if is_slave else "master"))
    own = {name: metric._replace(fixed=identity) for name, metric in OWN_METRICS.items()}
    return {**METRICS_OF_JAVA, **own}


# Metrics of 5.3.3 that this broker does not have, and why; also in docs/operate/monitor.md, and a test compares.
NOT_HERE = {
    "rocketmq_pop_buffer_scan_time_consume_milliseconds": "there is no such buffer: records of pop are found by time",
    "rocketmq_pop_offset_buffer_size": "offsets of pop are part of its check points",
    "rocketmq_pop_revive_lag_milliseconds": "due messages are found by time, not by reading a topic",
    "rocketmq_timer_enqueue_latency_milliseconds": "the broker does not read the first waiting message for it; the lag has the number of messages",
    "rocketmq_timer_dequeue_lag": "due messages are delivered at once; the latency has the delay",
    "rocketmq_pop_revive_latency_milliseconds": "due messages are found by time, not by reading a topic",
    "rocketmq_timer_message_snapshot": "the broker does not scan the timer wheel for it",
}
