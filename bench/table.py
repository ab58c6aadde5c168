"""Makes the tables of `bench/README.md` from the results of a run.

Usage: python -m bench.table      writes each section's table between its marks in README.md

A cell with a ratio is the median of the rounds' ratios, ours to the other's, never a ratio of medians.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.systems import BEFORE, COMETMQ, FLOOR, JAVA, KAFKA, REDIS

HERE = Path(__file__).resolve().parent
END = "<!-- end -->"
Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: which figure of which row, against whom, and what it must reach."""

    title: str
    row: str
    figure: str
    target: float | None  # None: shown, and nothing is asked of it
    against: str | None = JAVA  # None: an absolute figure of ours
    at_least: bool = True
    unit: str = "/s"
    scale: float = 1.0


PROCESSOR = "processor time a message"
LINES = [
    Line(f"send 128 B, 4 connections, window 256: {PROCESSOR}", "send 128", "processor_us", 0.4, at_least=False, unit=" us"),
    Line("the same: throughput", "send 128", "per_second", 2.0),
    Line(f"send 1 KiB, 4 connections, window 256: {PROCESSOR}", "send 1024", "processor_us", 0.4, at_least=False, unit=" us"),
    Line("the same: throughput", "send 1024", "per_second", 1.8),
    Line(f"send 128 B with keys, 4 connections, window 256: {PROCESSOR}", "send keys", "processor_us", 0.4, at_least=False, unit=" us"),
    Line("the same: throughput", "send keys", "per_second", 2.2),
    Line("the same: the index behind, at most", "index lag", "most_ms", 1_000.0, against=None, at_least=False, unit=" ms"),
    Line(f"pull, 4 connections: {PROCESSOR}", "pull", "processor_us", 0.6, at_least=False, unit=" us"),
    Line("the same: throughput", "pull", "per_second", 1.0),
    Line("pop of 32 and an acknowledgement of each message, 4 connections", "pop", "per_second", 1.5),
    Line("SQL92, 3 terms over 10 properties, a core", "sql92", "per_second", 300_000.0, against=None),
    Line("Java client: sync, 16 threads", "java sync", "per_second", 1.2),
    Line("Java client: async, 1,024 in flight", "java async", "per_second", 1.2),
    Line("Java client: batches of 32", "java batch", "per_second", 1.2),
    Line("Java client: consume", "java consume", "per_second", 1.0),
    Line("start, empty, to the first answered send", "start", "seconds", 0.7, against=None, at_least=False, unit=" s"),
    Line("anonymous memory after 5 million messages", "memory", "anonymous_bytes", 150.0, against=None, at_least=False, unit=" MB", scale=1e-6),
]  # fmt: skip


ALONE_LINES = [
    Line("send 128 B, 1 connection, window 1: p50", "send alone", "p50_us", 0.4, at_least=False, unit=" us"),
    Line(f"the same: {PROCESSOR}", "send alone", "processor_us", 0.4, at_least=False, unit=" us"),
    Line("the same: p50, against the floor, wherever each was put", "send alone", "p50_us", None, against=FLOOR, at_least=False, unit=" us"),
    Line("sender and server on one core: p50, against the floor", "on one core", "p50_us", 2.5, against=FLOOR, at_least=False, unit=" us"),
    Line("on a core each: p50, against the floor", "on a core each", "p50_us", 2.5, against=FLOOR, at_least=False, unit=" us"),
]  # fmt: skip


COLUMNS_LINES = [
    Line("send 128 B, 4 connections, window 256: throughput, of the floor's", "send 128", "per_second", 0.75, against=FLOOR),
    Line(f"the same: {PROCESSOR}", "send 128", "processor_us", None, against=FLOOR, at_least=False, unit=" us"),
    Line("send 1 KiB, 4 connections, window 256: throughput, of the floor's", "send 1024", "per_second", 0.5, against=FLOOR),
    Line(f"send 128 B with keys, 4 connections, window 256: {PROCESSOR}", "send keys", "processor_us", None, at_least=False, unit=" us"),
    Line("send 128 B, 64 connections, window 1: throughput", "crowd 64", "per_second", 1.8),
    Line(f"the same: {PROCESSOR}", "crowd 64", "processor_us", 0.25, at_least=False, unit=" us"),
    Line("send 128 B, 1 connection, window 1, on one core: p50, against the floor", "on one core", "p50_us", 1.5, against=FLOOR, at_least=False, unit=" us"),
    Line("pull, 4 connections: throughput", "pull", "per_second", 3.0),
    Line(f"the same: {PROCESSOR}", "pull", "processor_us", None, at_least=False, unit=" us"),
    Line(f"pop of 32 and an acknowledgement of each message, 4 connections: {PROCESSOR}", "pop", "processor_us", None, at_least=False, unit=" us"),
    *(
        Line(f"instructions in user space a message: {title}", f"counted {row}", "instructions", target, against=None, at_least=False, unit="")
        for title, row, target in (
            ("send 128 B, 4 connections, window 256", "w256", 9_000.0),
            ("the same, 1 KiB", "w256 1 KiB", 11_000.0),
            ("the same, 128 B with a key", "w256 keys", 14_000.0),
            ("send 128 B, 64 connections, window 1", "crowd 64", 30_000.0),
            ("send 128 B, 1 connection, window 1", "lone", 60_000.0),
            ("pull of 32, 4 connections", "pull", 3_000.0),
            ("pop of 32 and an acknowledgement of each message", "pop", None),
            ("batches of 32 of our client", "batch", None),
        )
    ),
]  # fmt: skip


CROWD = (16, 64, 256, 1000)
CROWD_LINES = [
    line
    for count in CROWD
    for line in (
        Line(f"send 128 B, {count:,} connections, window 1: throughput", f"crowd {count}", "per_second", 1.3),
        Line(f"the same: {PROCESSOR}", f"crowd {count}", "processor_us", 0.35, at_least=False, unit=" us"),
        Line("the same: p99", f"crowd {count}", "p99_us", 0.7, at_least=False, unit=" ms", scale=1e-3),
    )
]  # fmt: skip
CROWD_LINES.append(
    Line("2,000 clients of a killed broker, from its start until a message of each is stored", "back", "last_ms", 0.5, at_least=False, unit=" ms"),
)  # fmt: skip


STORE_LINES = [
    Line("SYNC_FLUSH, 1 connection, window 1, sender and server on one core: p50 over a bare `pwrite` + `fdatasync`", "sync on one core", "over_bare_us", 60.0, against=None, at_least=False, unit=" us"),
    Line("the same on a core each", "sync on a core each", "over_bare_us", 60.0, against=None, at_least=False, unit=" us"),
    Line("the same wherever each was put", "sync alone", "over_bare_us", None, against=None, at_least=False, unit=" us"),
    Line("SYNC_FLUSH, 4 connections, window 256: throughput", "sync many", "per_second", 2.0),
    Line(f"the same: {PROCESSOR}", "sync many", "processor_us", 0.4, at_least=False, unit=" us"),
    Line("send over 1 topic of 8 queues: throughput", "topics 1", "per_second", 2.0),
    Line("over 1,000 topics: throughput", "topics 1000", "per_second", 2.0),
    Line("over 10,000 topics: throughput, of that over 1", "topics 10000", "speed_kept", 0.8, against=None, unit="x"),
    Line("over 10,000 topics: messages for the same processor time, of those over 1", "topics 10000", "processor_kept", 0.8, against=None, unit="x"),
    Line("query by key among 20 million, warm: p50", "query", "p50_us", 1_000.0, against=None, at_least=False, unit=" us"),
    Line("anonymous memory with 80,000 queues", "topics 10000", "anonymous_bytes", 600.0, against=None, at_least=False, unit=" MB", scale=1e-6),
]  # fmt: skip


OPERATE_LINES = [
    Line("send 128 B, 4 connections, window 256, `/metrics` read each 5 s: of the rate without", "scraped", "kept", 0.97, against=None, unit="x"),
    Line("the same: messages for the same processor time", "scraped", "kept_by_processor", None, against=None, unit="x"),
    Line("`/metrics` with 10,000 topics of 8 queues, 100 groups", "page 10000", "ms", 500.0, against=None, at_least=False, unit=" ms"),
    Line("the same: p999 of a lone sender while it is read each 2 s", "page 10000", "p999_ms", 20.0, against=None, at_least=False, unit=" ms"),
    Line("`/metrics` with 1,000 topics of 8 queues, 100 groups", "page 1000", "ms", 0.5, at_least=False, unit=" ms"),
    Line("`cometmq cluster list` from the shell", "looks", "cluster_ms", 700.0, against=None, at_least=False, unit=" ms"),
    Line("the same; `mqadmin clusterList`", "looks", "cluster_ms", 0.3, at_least=False, unit=" ms"),
    Line("`cometmq group list` of 1,000 groups from the shell", "looks", "groups_ms", 1_500.0, against=None, at_least=False, unit=" ms"),
    Line("the same; `mqadmin consumerProgress`", "looks", "groups_ms", 0.3, at_least=False, unit=" ms"),
    Line("`cometmq dlq replay` of 100,000 dead letters, with its start", "replay", "per_second", 10_000.0, against=None),
    Line("the same of 20,000 with a rate of 5,000/s: of the rate, from the first to the last that was stored", "replay with a rate", "of_rate", 0.95, against=None, unit="x"),
    Line("dashboard, 1,000 topics, in Chromium: the first page to its last number", "pages", "first_ms", 1_000.0, against=None, at_least=False, unit=" ms"),
    Line("the same: a topic's page", "pages", "topic_ms", 1_000.0, against=None, at_least=False, unit=" ms"),
    Line("the same: a page of a topic of 1 million messages, the slowest of 5", "browsing", "ms", 300.0, against=None, at_least=False, unit=" ms"),
    Line("the same: its anonymous memory after what an hour of open pages asks", "hour", "bytes", 120.0, against=None, at_least=False, unit=" MB", scale=1e-6),
    Line("1,000 topics of 8 queues, 300 groups of 5 topics: processor time of the broker for a scrape", "many", "scrape_s", 0.2, against=None, at_least=False, unit=" s"),
    Line("the same: `cometmq topic list` from the shell", "many", "topics_ms", None, against=None, at_least=False, unit=" ms"),
    Line("the same: `cometmq group list`", "many", "groups_ms", 1_500.0, against=None, at_least=False, unit=" ms"),
    Line("the same: `cometmq doctor`", "many", "doctor_ms", None, against=None, at_least=False, unit=" ms"),
    Line("the same, without a browser: the dashboard's overview", "many pages", "overview_ms", 300.0, against=None, at_least=False, unit=" ms"),
    Line("the same: its page of 50 topics", "many pages", "topics_ms", 1_000.0, against=None, at_least=False, unit=" ms"),
    Line("the same: the page of topics, the 1,000 sorted by messages", "many pages", "sorted_ms", None, against=None, at_least=False, unit=" ms"),
    Line("the same: a topic that 2 groups read", "many pages", "topic_ms", 1_000.0, against=None, at_least=False, unit=" ms"),
    Line("the same: its page of 100 groups", "many pages", "groups_ms", 1_000.0, against=None, at_least=False, unit=" ms"),
    Line("the same: a group", "many pages", "group_ms", 1_000.0, against=None, at_least=False, unit=" ms"),
    Line("what an open page, shown in Chromium, takes of the broker: of one core", "lost", "of_core", 2.0, against=None, at_least=False, unit=" %"),
    Line("send 128 B, 4 connections, window 256, beside it: messages for the same processor time of the broker", "lost", "kept", None, against=None, unit="x"),
    Line("the same: rate, with Chromium and the dashboard on the same cores", "lost", "kept_rate", None, against=None, unit="x"),
]  # fmt: skip


SECURE_LINES = [
    Line("send 128 B, 4 connections, window 256, signed, with rights: throughput", "signed", "per_second", 3.0),
    Line("the same: of the rate without signatures and rights", "signed", "kept", 0.6, against=None, unit="x"),
    Line("the same over TLS 1.3: throughput", "tls", "per_second", 2.0),
    Line("the same: of the rate without signatures, rights and TLS", "tls", "kept", 0.5, against=None, unit="x"),
    Line("one connection, window 1, signed, over TLS 1.3: p50", "tls alone", "p50_us", 1.0, at_least=False, unit=" us"),
    Line("signed, beside somebody who is refused 20 times a second: of the rate without him", "audit", "kept", 0.97, against=None, unit="x"),
    Line("the same: messages for the same processor time", "audit", "kept_by_processor", None, against=None, unit="x"),
    Line("1,000 users with 20 entries each: a decision, seen before", "decisions", "again_us", 2.0, against=None, at_least=False, unit=" us"),
    Line("the same: at first", "decisions", "first_us", 50.0, against=None, at_least=False, unit=" us"),
    Line("a file of 1,000 accounts with 20 permissions each is taken: the longest wait of a lone sender", "taken", "ms", 20.0, against=None, at_least=False, unit=" ms"),
    Line("the same, where none is taken", "taken", "bare_ms", None, against=None, at_least=False, unit=" ms"),
    Line("anonymous memory with 5,000 idle connections", "idle", "bytes", 150.0, against=None, at_least=False, unit=" MB", scale=1e-6),
    Line("what 1,000 idle ones over TLS add", "idle tls", "growth_bytes", 100.0, against=None, at_least=False, unit=" MB", scale=1e-6),
    Line("the same, against Java's", "idle tls", "growth_bytes", 1.0, at_least=False, unit=" MB", scale=1e-6),
]  # fmt: skip


FACE_LINES = [
    Line("plan of a batch read of 1,000 queues, a broker 5 ms away", "plan", "seconds", 0.3, against=None, at_least=False, unit=" s"),
    Line("`cometmq store verify`, 1 KiB messages, on one core, by processor time; before: commit 7fa79f5", "verify", "bytes_per_second", 1.0, against=BEFORE, unit=" MB/s", scale=1e-6),
    Line("100,000 rows of an hour in 4 unlike queues, 10 s windows, watermark of 1 minute, 500 rows a trigger: windows as in one batch", "backlog", "equal", 1.0, against=None, unit="x"),
    Line("the same: rate, of `admission=offsets`", "backlog", "of_offsets", 0.9, against=None, unit="x"),
    Line("sink, 1 KiB bodies, a `topic` column: of the rate without", "sink", "kept_topic", 0.8, against=None, unit="x"),
    Line("the same with a `shardingKey` column", "sink", "kept_key", 0.8, against=None, unit="x"),
    Line("`cdc`, a micro-batch of 10,000 changes in a table of 10 million keys: of writing the table", "changes", "of_whole", 0.05, against=None, at_least=False, unit="x"),
    Line("`cometmq --help`, processor time", "commands", "help_seconds", 0.35, against=None, at_least=False, unit=" s"),
    Line("`from cometmq import Producer`, processor time", "commands", "import_seconds", 0.15, against=None, at_least=False, unit=" s"),
]  # fmt: skip


SPARK_LINES = [
    Line("source to noop, 1 KiB bodies, properties as a map", "source map", "per_second", 0.95, against=KAFKA),
    Line("the same, properties as stored", "source raw", "per_second", 1.2, against=KAFKA),
    Line("sink, at-least-once, 1 KiB bodies", "sink", "per_second", 1.0, against=KAFKA),
    Line("a micro-batch of 400 rows to noop: p50", "micro-batch", "p50_ms", 1.1, against=KAFKA, at_least=False, unit=" ms"),
]  # fmt: skip


RECOVERY_LINES = [
    Line("from the start of a killed broker with 4 GB of 1 KiB messages to its open port", "recovery", "seconds", 0.5, at_least=False, unit=" s"),
    Line("`cometmq store verify` of it, on one core", "verify", "bytes_per_second", 250.0, against=None, unit=" MB/s", scale=1e-6),
]  # fmt: skip


HA_LINES = [
    Line("SYNC_MASTER, one slave, `inSyncReplicas=2`, 128 B, 4 connections, window 256: throughput", "sync many", "per_second", 2.0),
    Line("the same: of an ASYNC_MASTER with the same slave", "sync many", "of_async", 0.7, against=None, unit="x"),
    Line("the same with 16 connections, window 1: throughput", "sync lone", "per_second", 1.5),
    Line("the same: p99", "sync lone", "p99_us", 1.0, at_least=False, unit=" ms", scale=1e-3),
    Line("what a slave leaves of an ASYNC_MASTER's sends", "async with slave", "kept", 1.0, unit="x"),
    Line("the same: messages for the same processor time of the master", "async with slave", "processor_kept", None, unit="x"),
    Line("a slave with an empty disk catches up 1 GB of 1 KiB messages", "catch up", "bytes_per_second", 100.0, against=None, unit=" MB/s", scale=1e-6),
    Line("the same, against Java's", "catch up", "bytes_per_second", 0.5, unit=" MB/s", scale=1e-6),
    Line("what a slave that catches up, from an empty disk, leaves of the master's sends", "async meanwhile", "kept", 0.8, against=None, unit="x"),
    Line("the same, of its sends with a slave that has caught up", "async meanwhile", "kept_of_slave", None, against=None, unit="x"),
    Line("the same: what it copies meanwhile", "async meanwhile", "copied_per_second", 100.0, against=None, unit=" MB/s", scale=1e-6),
    Line("the same with `haFlowControlEnable=true`: what it leaves of the master's sends", "async bounded", "kept", 0.8, against=None, unit="x"),
    Line("the same: what it copies then", "async bounded", "copied_per_second", 100.0, against=None, unit=" MB/s", scale=1e-6),
    Line("what the master's anonymous memory grows by with a slave 1 GB behind", "master's memory", "growth_bytes", 10.0, against=None, at_least=False, unit=" MB", scale=1e-6),
    Line("a slave's anonymous memory, of its master's", "slave's memory", "of_master", 1.2, against=None, at_least=False, unit="x"),
]  # fmt: skip


CLIENT_LINES = [
    Line("to the Java broker: `AsyncProducer.send`, 1,024 gathered; Java: async, 1,024 in flight", "to java", "per_second", 1.0),
    Line("the same to our broker", "to ours", "per_second", 1.0),
    Line("256 in flight, a task and a semaphore for each; aiokafka to Kafka, acks=1", "in-flight", "per_second", 2.0, against=KAFKA),
    Line("the same with `auto_batch`: batches, as aiokafka always makes them", "batched", "per_second", 1.0, against=KAFKA),
    Line("256 gathered, and the next 256 when these are stored; aiokafka to Kafka, acks=1", "together", "per_second", 2.0, against=KAFKA),
    Line("one at a time: p50; redis-py, XADD", "alone", "p50_us", 1.0, against=REDIS, at_least=False, unit=" us"),
    Line("`Producer.send`, one thread: p50", "blocking", "p50_us", 1.5, at_least=False, unit=" us"),
    Line("push consumer, a listener of 32 that does nothing", "push", "per_second", 3.0),
]  # fmt: skip


SPARK_STORE_LINES = [
    Line("store scan to noop, raw properties, the columns that Kafka's source has; Kafka: its source", "scan", "per_second", 1.8, against=KAFKA),
    Line("the same with all 23 columns", "scan raw", "per_second", None, against=KAFKA),
    Line("all columns, map properties", "scan map", "per_second", 1.0, against=KAFKA),
    Line("archive: the log to Parquet; Kafka: a topic to Parquet", "archive", "per_second", 2.0, against=KAFKA),
    Line("rebuild of all consume queues", "rebuild", "per_second", 500_000.0, against=None),
    Line("verify: every record, CRC and queue entry", "verify", "per_second", 600_000.0, against=None),
    Line("Spark alone: a Python source of two rows, from the command to its result", "bare job", "seconds", None, against=None, at_least=False, unit=" s"),
    Line("`cometmq pipeline sql`, 20,000 messages: from the command to its result", "cold job", "seconds", 12.0, against=None, at_least=False, unit=" s"),
    Line("the same after `python -m examples.spark_classes`", "warm job", "seconds", 8.0, against=None, at_least=False, unit=" s"),
]  # fmt: skip


CORES_LINES = [
    Line("one broker: send 128 B, 4 connections, window 256: throughput", "send 128 one", "per_second", None),
    Line("two brokers: the same, 2 connections each: throughput of both", "send 128 two", "per_second", None),
    Line("the same: of one broker's", "send 128 two", "per_second_of_one", None, against=None, unit="x"),
    Line(f"one broker: {PROCESSOR}", "send 128 one", "processor_us", None, at_least=False, unit=" us"),
    Line(f"two brokers: {PROCESSOR}", "send 128 two", "processor_us", None, at_least=False, unit=" us"),
    Line("one broker: send 1 KiB: throughput", "send 1024 one", "per_second", None),
    Line("two brokers: the same", "send 1024 two", "per_second", None),
    Line("the same: of one broker's", "send 1024 two", "per_second_of_one", None, against=None, unit="x"),
    Line("one broker: pull, 4 connections: throughput", "pull one", "per_second", None),
    Line("two brokers: the same, 2 connections each", "pull two", "per_second", None),
    Line("the same: of one broker's", "pull two", "per_second_of_one", None, against=None, unit="x"),
    Line("one broker: Java client, async, 1,024 in flight", "java async one", "per_second", None),
    Line("two brokers: the same, to a topic of both", "java async two", "per_second", None),
    Line("the same: of one broker's", "java async two", "per_second_of_one", None, against=None, unit="x"),
    Line("anonymous memory of both brokers then", "memory", "bytes", None, at_least=False, unit=" MB", scale=1e-6),
]  # fmt: skip


UNSEEN_LINES = [
    line
    for title, row, rate, processor in (
        ("pulls with tags, 1 of 10 messages; of messages looked at", "TAG 10", 2.0, 0.35),
        ("1 of 100", "TAG 100", 2.0, 0.35),
        ("1 of 1,000", "TAG 1000", 2.0, 0.35),
        ("pulls with SQL92, 1 of 10 messages", "SQL92 10", 1.5, 0.5),
        ("1 of 100", "SQL92 100", None, None),
        ("1 of 1,000", "SQL92 1000", 1.5, 0.5),
        ("query of a key that is there, 4 connections, one at a time", "key", 1.0, 1.0),
        ("of a key that is not", "no key", 1.0, 1.0),
        ("view by id", "view", 1.0, 1.0),
        ("offset by time", "time", 1.0, 1.0),
        ("send-backs of refused messages, 4 connections, 16 in flight", "refused", 1.1, 0.6),
        ("heartbeats of 16 clients", "heartbeats", 1.2, 0.5),
        ("of 1,000 clients of one group that join and go on", "joining", 1.2, 0.5),
        ("locks of 4 queues, 16 connections", "locks", 1.2, 0.5),
        ("sends with a delay level, 4 connections, 64 in flight", "delayed", 1.5, 0.45),
        ("timed sends", "timed", 1.5, 0.45),
        ("transactions, half message and commit, 16 connections", "transactions", 1.3, 0.5),
        ("4 connections, 64 in flight", "many transactions", 1.3, 0.5),
        ("1,500 topics made by sends, 8 connections", "new topics", 1.2, 0.5),
        ("50 groups that wait on one topic, 500 sends/s: what they get", "fan", None, 0.4),
    )
    for line in (
        Line(f"{title}: throughput", row, "per_second", rate),
        Line("the same: processor time for each", row, "processor_us", processor, at_least=False, unit=" us"),
        Line("the same: p99", row, "p99_us", None, at_least=False, unit=" us"),
    )
]  # fmt: skip


GRPC_LINES = [
    Line("SendMessage of 1 KiB, 1 connection, 64 in flight: throughput", "grpc send", "per_second", 1.5),
    Line("the same: processor time a message", "grpc send", "processor_us", 0.4, at_least=False, unit=" us"),
    Line("one at a time: p50", "grpc alone", "p50_us", 0.7, at_least=False, unit=" us"),
    Line("the same: p99", "grpc alone", "p99_us", 0.7, at_least=False, unit=" us"),
    Line("ReceiveMessage of 32 and one AckMessage of them, 4 connections: throughput", "grpc receive", "per_second", 1.5),
    Line("anonymous memory with 1,000 clients that wait in ReceiveMessage", "grpc waiting", "bytes", 150.0, against=None, at_least=False, unit=" MB", scale=1e-6),
]  # fmt: skip


TIMED_LINES = [
    Line("1 million timed messages waiting: anonymous memory", "timed", "waiting_bytes", 150.0, against=None, at_least=False, unit=" MB", scale=1e-6),
    Line("stored in its topic after its time: p99", "timed", "p99_ms", 1_000.0, against=None, at_least=False, unit=" ms"),
]  # fmt: skip


FAILOVER_LINES = [
    *(
        line
        for title, row, most in (
            ("`kill -9` of the leader, to the first acknowledgement of another one", "kill -9", 1.0),
            ("the leader hangs (SIGSTOP)", "SIGSTOP", 3.0),
            ("the leader's cable is pulled", "cut", 3.0),
        )
        for line in (
            Line(f"{title}: p50", row, "p50_s", None, against=None, at_least=False, unit=" s"),
            Line("the same: p95", row, "p95_s", most, against=None, at_least=False, unit=" s"),
            Line("the same: p95, against Java's", row, "p95_s", 0.5, at_least=False, unit=" s"),
        )
    ),
    Line("ASYNC_FLUSH, 128 B, 4 connections, window 256: throughput", "ASYNC_FLUSH", "per_second", 2.0),
    Line("SYNC_FLUSH: the same", "SYNC_FLUSH", "per_second", 2.0),
    Line("anonymous memory of the largest member after 1 million messages", "memory", "bytes", 120.0, against=None, at_least=False, unit=" MB", scale=1e-6),
    Line("a member 1 GB behind: what it copies while sends go on", "catch up", "bytes_per_second", 60.0, against=None, unit=" MB/s", scale=1e-6),
    Line("the same: what it leaves of the sends", "catch up", "kept", 0.7, against=None, unit="x"),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """A table of README.md: its lines, and where the results of its last run are."""

    name: str
    lines: list[Line]
    systems: tuple[str, ...] = (JAVA, COMETMQ, FLOOR)

    @property
    def begin(self) -> str:
        return f"<!-- made by bench.table: {self.name} -->"

    @property
    def results(self) -> Path:
        return HERE / "results" / f"{self.name}.json"


SECTIONS = {
    section.name: section
    for section in (
        Section("broker", LINES),
        Section("alone", ALONE_LINES),
        Section("columns", COLUMNS_LINES),
        Section("crowd", CROWD_LINES, (JAVA, COMETMQ)),
        Section("store", STORE_LINES),
        Section("recovery", RECOVERY_LINES),
        Section("ha", HA_LINES, (JAVA, COMETMQ)),
        Section("failover", FAILOVER_LINES, (JAVA, COMETMQ)),
        Section("spark", SPARK_LINES, (KAFKA, COMETMQ)),
        Section("spark-store", SPARK_STORE_LINES, (KAFKA, COMETMQ)),
        Section("clients", CLIENT_LINES, (JAVA, KAFKA, REDIS, COMETMQ)),
        Section("cores", CORES_LINES, (JAVA, COMETMQ)),
        Section("timed", TIMED_LINES, (COMETMQ,)),
        Section("unseen", UNSEEN_LINES, (JAVA, COMETMQ)),
        Section("grpc", GRPC_LINES, (JAVA, COMETMQ)),
        Section("operate", OPERATE_LINES, (JAVA, COMETMQ)),
        Section("secure", SECURE_LINES, (JAVA, COMETMQ)),
        Section("face", FACE_LINES, (BEFORE, COMETMQ)),
    )
}


def figures(results: Results, line: Line, system: str) -> list[float]:
    """A figure of one system in every round that has it."""
    return [
        measured[system][line.row][line.figure] * line.scale
        for measured in results["rounds"]
        if line.row in measured.get(system, {})
    ]


def reached(results: Results, line: Line) -> float | None:
    """What the line's target is compared with: a median of ratios, or of our own figures."""
    ours = figures(results, line, COMETMQ)
    if line.against is None:
        return median(ours) if ours else None
    theirs = figures(results, line, line.against)
    ratios = [our / their for our, their in zip(ours, theirs, strict=False)]
    return median(ratios) if ratios else None


def shown(values: list[float], unit: str) -> str:
    """A median with its unit, short."""
    if not values:
        return "-"
    value = median(values)
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}{unit}"


TITLES = {
    BEFORE: "before",
    JAVA: "Java",
    COMETMQ: "CometMQ",
    FLOOR: "floor",
    KAFKA: "Kafka",
    REDIS: "Redis",
}


def verdict(line: Line, value: float | None) -> tuple[str, str]:
    """What a line must reach, and whether it does."""
    if line.target is None:
        return "-", "not measured" if value is None else ""
    limit = f"{'>=' if line.at_least else '<='} {line.target:g}" + (
        f"{line.unit}" if line.against is None else "x"
    )
    if value is None:
        return limit, "not measured"
    return limit, "yes" if (value >= line.target) == line.at_least else "**no**"


def markdown(results: Results, section: Section) -> str:
    """A section's table."""
    titles = [TITLES[name] for name in section.systems]
    rows = [
        "| " + " | ".join(["work", *titles, "ratio", "must be", "holds"]) + " |",
        "| --- |" + " ---: |" * (len(titles) + 2) + " --- |",
    ]
    for line in section.lines:
        cells = [shown(figures(results, line, name), line.unit) for name in section.systems]
        value = reached(results, line)
        ratio = "" if line.against is None or value is None else f"{value:.2f}x"
        rows.append(
            "| " + " | ".join([line.title, *cells, ratio, *verdict(line, value)]) + " |"
        )
    return "\n".join(rows)


def write_readme(section: Section, results: Results) -> None:
    """Put the table, and what ran it, between the section's marks in README.md."""
    path = HERE / "README.md"
    head, begin, rest = path.read_text().partition(section.begin)
    assert begin, f"{path} has no mark {section.begin}"
    tail = rest.partition(END)[2]
    about = results["machine"]
    load = f"{results['seconds']} s a row"
    if "rows" in results:
        load = f"{results['rows']:,} rows"
    elif "keys" in results:
        load = f"the face with a table of {results['keys']:,} keys"
    elif "messages" in results:
        load = f"{results['messages']:,} messages"
    words = (
        f"{len(results['rounds'])} rounds of {load} on {about['cores']} cores"
        f" ({about['processor']}), Python {about['python']}, {about['java']}, RocketMQ"
        f" {about['rocketmq']}, commit {about['commit']}, {about['when']}; load average before it"
        f" began {about['load_average']} (a quiet machine: 0)."
    )
    made = markdown(results, section)
    path.write_text(f"{head}{begin}\n{made}\n\n{words}\n{END}{tail}")


def main() -> int:
    """Write the tables from the results that there are."""
    for section in SECTIONS.values():
        if section.results.exists():
            results = json.loads(section.results.read_text())
            write_readme(section, results)
            print(markdown(results, section))
    return 0


if __name__ == "__main__":
    sys.exit(main())
