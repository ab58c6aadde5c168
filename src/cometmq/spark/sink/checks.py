"""Answers of a Spark sink to brokers that check the state of half messages, from the ledger.

    with TransactionChecks("localhost:9876", group="orders-sink", ledger_dir="/data/ledgers"):
        query.awaitTermination()

Half messages that an unfinished ledger entry lists are committed; others are rolled back when the ledger shows that
they are not wanted (`verdict`). The driver answers checks, too, from its first commit or abort until its client closes.
"""

import logging
from functools import partial
from pathlib import Path
from typing import Self

from cometmq import ProducerSettings, TransactionState
from cometmq.connect import CheckedHalfMessage, EncodedProducer
from cometmq.model import properties as keys_of
from cometmq.model.credentials import Credentials
from cometmq.model.tls import TlsSettings
from cometmq.spark.sink.encode import SPARK_RUN
from cometmq.spark.sink.half_messages import BatchKey
from cometmq.spark.sink.ledger import DONE, Ledgers

log = logging.getLogger(__name__)


def verdict(
    ledgers: Ledgers, key: BatchKey, *, broker: str, message_id: str, is_over: bool
) -> TransactionState:
    """Return COMMIT, ROLLBACK or UNKNOWN for a half message, by the ledger of its batch.

    With a decision about the batch: COMMIT if it lists the message at `broker` and is not marked as done, UNKNOWN if
    it lists the message and `broker` is empty, otherwise ROLLBACK. Without one: UNKNOWN if the ledgers have no folder
    of the query, which may be another driver's; ROLLBACK if the immunity time has passed or the query has a decision
    about a later batch; otherwise UNKNOWN.

    Args:
        ledgers: Store of the decisions about batches.
        key: Batch of the half message.
        broker: Name of the broker that holds it; empty if it did not send one.
        message_id: Its unique id.
        is_over: Whether its immunity time has passed, so that no new commit can include it.

    Raises:
        CometError, OSError: The ledger entry is damaged, or cannot be read.
    """
    entry = ledgers.read(key)
    if entry is not None:
        is_open = entry.state != DONE
        at = [each.broker for each in entry.half_messages if is_open and message_id in each.ids]
        if at and not broker:
            return TransactionState.UNKNOWN  # It may be a copy that a retry made elsewhere.
        return TransactionState.COMMIT if broker in at else TransactionState.ROLLBACK
    if not ledgers.is_known(key.query):
        return TransactionState.UNKNOWN  # Belongs to a driver with another folder.
    if is_over or ledgers.newest(key.query) > key.batch:
        return TransactionState.ROLLBACK
    return TransactionState.UNKNOWN


def _judge(ledgers: Ledgers, half: CheckedHalfMessage) -> TransactionState:
    """Return COMMIT, ROLLBACK or UNKNOWN for a half message of this sink (see `verdict`), and log it."""
    seconds = int(half.properties.get(keys_of.CHECK_IMMUNITY_SECONDS, "0"))
    run = half.properties[SPARK_RUN]
    state = verdict(
        ledgers,
        BatchKey.read(run),
        broker=half.broker_name,
        message_id=half.properties.get(keys_of.UNIQ_KEY, ""),
        is_over=half.age_ms > seconds * 1000,
    )
    log.info(
        "Broker %s checked a half message of %s; the answer is %s",
        half.broker_name,
        run,
        state.name,
    )
    return state


class TransactionChecks:
    """Context manager that answers brokers' checks of a Spark sink's half messages while it is open.

    Args:
        nameservers: "host:port", several separated by `;`.
        group: The sink's option `group`.
        ledger_dir: The sink's option `ledgerDir`.
        namespace: The sink's option `rocketmq.namespace`.
        credentials: Credentials that sign its requests.
        tls: TLS settings of its connections.

    Attributes:
        producer: Producer in the group; it sends no messages.
    """

    def __init__(
        self,
        nameservers: str,
        *,
        group: str,
        ledger_dir: str | Path,
        namespace: str = "",
        credentials: Credentials | None = None,
        tls: TlsSettings | None = None,
    ) -> None:
        self.producer = EncodedProducer(
            nameservers,
            group=group,
            settings=ProducerSettings(namespace=namespace, credentials=credentials, tls=tls),
            mark=SPARK_RUN,
            judge=partial(_judge, Ledgers(Path(ledger_dir))),
        )

    def __enter__(self) -> Self:
        self.producer.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.producer.close()
