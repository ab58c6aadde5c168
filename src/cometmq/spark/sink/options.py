"""Options of a write to topics with the Spark format "rocketmq"."""

from cometmq.model.durations import duration_ms
from cometmq.model.text import in_quotes
from cometmq.spark.options import NAME_SERVER, PASSED_ON, Option, group, one_of, text, whole

DEFAULT_GROUP = "spark-rocketmq-sink"

AT_LEAST_ONCE, IDEMPOTENT, TRANSACTIONAL = "at-least-once", "idempotent", "transactional"
ROUND_ROBIN, BY_KEYS, BY_PARTITION = "roundRobin", "keys", "partition"


def _name(text: str) -> str:
    """Return a name to be used as a folder name; raise ValueError if it is empty, begins with a dot, or has / or NUL."""
    if not text or text.startswith(".") or "/" in text or "\0" in text:
        raise ValueError(
            f"{in_quotes(text)} cannot be used as a folder name; use letters, digits, - and _"
        )
    return text


SINK_OPTIONS = (
    NAME_SERVER,
    Option("topic", text, None, "Topic for all rows. It overrides the column `topic`; one of the two is required."),
    Option("group", group, DEFAULT_GROUP, "The producer group that brokers see."),
    Option("delivery", one_of(AT_LEAST_ONCE, IDEMPOTENT, TRANSACTIONAL), None, "The delivery guarantee: `at-least-once` (default of a batch), `idempotent` (default of a stream) or `transactional`."),
    Option("idColumn", text, None, "With `idempotent`: the column (STRING, BINARY, INT or BIGINT) whose value gives a row its message id. Default: the row's number in its task."),
    Option("writeId", _name, None, "Identifies a batch write, so that a second run of the job is recognised: with `idempotent` its rows get the same ids; with `transactional`, which requires this option, it completes the first run or changes nothing. Batches only."),
    Option("ledgerDir", text, None, "Required with `transactional`: a folder on durable storage of the driver, in which it records what must be committed."),
    Option("auditDir", text, None, "A folder of the driver, or a URI, in which each write records what brokers acknowledged: first offset, last offset and number of messages by task and queue."),
    Option("transactionImmunity", duration_ms, "1d", "With `transactional`: how long brokers wait before they check a half message. A micro-batch must finish within half of it."),
    Option("queueSelector", one_of(ROUND_ROBIN, BY_KEYS, BY_PARTITION), ROUND_ROBIN, "Queue of rows without a `queueId` and `shardingKey`: `roundRobin`: any queue; `keys`: by the hash of their keys; `partition`: one queue for all rows of a task, in order."),
    Option("batch.maxMessages", whole(1, 65536), "1024", "Maximum number of messages in one request."),
    Option("batch.maxBytes", whole(1024, 64 << 20), "1048576", "Maximum number of bytes in one request; a broker refuses more than its maxMessageSize (4 MiB)."),
    Option("maxInflight", whole(1, 1024), "8", "Maximum number of unacknowledged requests of a task."),
    Option("compress.minBytes", whole(1), None, "Compress (zlib) bodies of this size and more. Default: none."),
    Option("retries", whole(), "3", "Number of immediate retries of a request, on another broker if the row has no queue and another broker exists."),
    Option("sendTimeoutMs", whole(1), "10000", "Timeout for one acknowledgement, including these retries."),
    Option("deliveryTimeoutMs", whole(1), "120000", "How long a task resends unacknowledged messages before it fails; a broker may restart in this time."),
    *PASSED_ON,
)  # fmt: skip
