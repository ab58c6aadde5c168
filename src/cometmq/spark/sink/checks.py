"""Answers brokers that ask what became of half messages: the ledger knows.

    with TransactionChecks("localhost:9876", group="orders-sink", ledger_dir="/data/ledgers"):
        query.awaitTermination()

What a task left behind that was killed is rolled back, and what a ledger lists is committed. The
driver's own commits answer too while their process lives; this answers all the time.
"""

import logging
from functools import partial
from pathlib import Path
from typing import Self

from cometmq.client import (
    CheckedHalfMessage,
    EncodedProducer,
    ProducerSettings,
    TransactionState,
)
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
    """The state of the transaction of a half message.

    Args:
        ledgers: what was decided.
        key: its batch.
        broker: who has it.
        message_id: its id.
        is_over: its immunity has passed, so that no commit will begin with it.

    Raises:
        CometError: the ledger cannot be read.
    """
    entry = ledgers.read(key)
    if entry is not None:
        is_wanted = entry.state != DONE and any(
            each.broker == broker and message_id in each.ids for each in entry.half_messages
        )
        return TransactionState.COMMIT if is_wanted else TransactionState.ROLLBACK
    if not ledgers.is_known(key.query):
        return TransactionState.UNKNOWN  # Another driver's, with another folder.
    if is_over or ledgers.newest(key.query) > key.batch:
        return TransactionState.ROLLBACK
    return TransactionState.UNKNOWN


def _judge(ledgers: Ledgers, half: CheckedHalfMessage) -> TransactionState:
    """The state of a half message that a sink has sent."""
    seconds = int(half.properties.get(keys_of.CHECK_IMMUNITY_SECONDS, "0"))
    run = half.properties[SPARK_RUN]
    state = verdict(
        ledgers,
        BatchKey.read(run),
        broker=half.broker_name,
        message_id=half.properties.get(keys_of.UNIQ_KEY, ""),
        is_over=half.age_ms > seconds * 1000,
    )
    log.info("%s asks about %s: %s", half.broker_name, run, state.name)
    return state


class TransactionChecks:
    """Answers the checks of a group while it is open.

    Args:
        nameservers: "host:port", several separated by `;`.
        group: the sink's option `group`.
        ledger_dir: the sink's option `ledgerDir`.
        namespace: its option `rocketmq.namespace`.
        credentials: what its requests are signed with.
        tls: how its connections are encrypted.

    Attributes:
        producer: of the group; it sends nothing.
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
        """Begin to answer."""
        self.producer.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Leave the group."""
        self.producer.close()
