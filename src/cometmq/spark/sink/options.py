"""Options of a write."""

from cometmq.model.durations import duration_ms
from cometmq.spark.options import (
    NAME_SERVER,
    PASSED_ON,
    Option,
    group,
    one_of,
    text,
    whole,
)

DEFAULT_GROUP = "spark-rocketmq-sink"

AT_LEAST_ONCE, IDEMPOTENT, TRANSACTIONAL = "at-least-once", "idempotent", "transactional"
ROUND_ROBIN, BY_KEYS, BY_PARTITION = "roundRobin", "keys", "partition"


def _name(text: str) -> str:
    """Parse a name that is used as a folder name."""
    if not text or text.startswith(".") or "/" in text or "\0" in text:
        raise ValueError(f"{text!r} can be no folder's name; use letters, digits, - and _")
    return text


SINK_OPTIONS = (
    NAME_SERVER,
    Option("topic", text, None, "Where all rows go. Goes before the column `topic`; one of the two is required."),
    Option("group", group, DEFAULT_GROUP, "The producer group that brokers see."),
    Option("delivery", one_of(AT_LEAST_ONCE, IDEMPOTENT, TRANSACTIONAL), None, "The promise: `at-least-once` (default of a batch), `idempotent` (default of a stream) or `transactional`."),
    Option("idColumn", text, None, "With `idempotent`: the column (STRING, BINARY, INT or BIGINT) whose value gives a row its message id. Default: the row's number in its task."),
    Option("writeId", _name, None, "Names a batch write, so that a second run of the job knows the first: with `idempotent` its rows get the same ids, with `transactional` (where it is required) it finishes the first or changes nothing. Batches only."),
    Option("ledgerDir", text, None, "With `transactional`, required: a folder of the driver's that outlives it, where it notes what must be committed."),
    Option("auditDir", text, None, "A folder of the driver's, or a URI, in which each write notes what brokers acknowledged: by task and queue the first and last offset, and how many."),
    Option("transactionImmunity", duration_ms, "1d", "With `transactional`: how long brokers wait before they ask about a half message. A micro-batch must be done in half of it."),
    Option("queueSelector", one_of(ROUND_ROBIN, BY_KEYS, BY_PARTITION), ROUND_ROBIN, "Where rows go that name no queue and have no `shardingKey`: `roundRobin` any queue, `keys` by the hash of their keys, `partition` all rows of a task to one queue, in order."),
    Option("batch.maxMessages", whole(1, 65536), "1024", "The most messages in one request."),
    Option("batch.maxBytes", whole(1024, 64 << 20), "1048576", "The most bytes in one request; a broker refuses more than its maxMessageSize (4 MiB)."),
    Option("maxInflight", whole(1, 1024), "8", "Requests of a task that may wait for their acknowledgement at once."),
    Option("compress.minBytes", whole(1), None, "Compress (zlib) bodies of this size and more. Default: none."),
    Option("retries", whole(), "3", "How often a request is tried at once again, on another broker where the row names no queue and there is one."),
    Option("sendTimeoutMs", whole(1), "10000", "How long one acknowledgement may take, with these tries."),
    Option("deliveryTimeoutMs", whole(1), "120000", "How long a task goes on sending what nobody acknowledges before it fails: a broker may restart meanwhile."),
    *PASSED_ON,
)  # fmt: skip
