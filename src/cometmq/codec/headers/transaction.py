"""Headers of transactions: END_TRANSACTION 37, CHECK_TRANSACTION_STATE 39, RESUME_CHECK_HALF_MESSAGE 323."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Header of a producer's decision about a half message, END_TRANSACTION 37.

    Attributes:
        producer_group: Producer group of the half message.
        tran_state_table_offset: Queue offset of the half message in the half topic.
        commit_log_offset: Physical offset of the half message, bytes.
        commit_or_rollback: Transaction bits of a sysFlag: 0 unknown, 8 commit, 12 rollback.
        msg_id: Unique key of the message.
        topic: Topic that the message is sent to.
        from_transaction_check: Whether this answers a check of the broker.
        transaction_id: Usually the unique key again.
        broker_name: Broker that stores the half message.
    """

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    msg_id: str
    topic: str | None = None
    from_transaction_check: bool | None = None
    transaction_id: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class CheckTransaction:
    """Header of a broker's question about the state of a transaction, CHECK_TRANSACTION_STATE 39.

    The body is the half message's record, with its real topic and queue (CheckTransactionStateRequestHeader).

    Attributes:
        tran_state_table_offset: Queue offset of the half message in the half topic.
        commit_log_offset: Physical offset of the half message, bytes.
        topic: Topic that stores the half message.
        msg_id: Unique key of the message.
        transaction_id: The unique key again.
        offset_msg_id: Offset message id of the half message.
        broker_name: Broker that stores the half message.
    """

    tran_state_table_offset: int
    commit_log_offset: int
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class ResumeCheck:
    """Header to check a discarded half message again, RESUME_CHECK_HALF_MESSAGE; `msg_id`: offset id of its discarded copy."""

    msg_id: str | None = None
    topic: str | None = None
