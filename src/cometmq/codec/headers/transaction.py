"""Headers of transactions: END_TRANSACTION 37, CHECK_TRANSACTION_STATE 39, RESUME_CHECK_HALF_MESSAGE 323."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """A producer's word on a half message (EndTransactionRequestHeader).

    Attributes:
        producer_group: of the half message.
        tran_state_table_offset: its offset in the half queue.
        commit_log_offset: its offset in the log, bytes.
        commit_or_rollback: transaction bits of a sysFlag: 0 not known yet, 8 commit, 12 rollback.
        msg_id: the message's unique key.
        topic: where the message will be.
        from_transaction_check: whether this answers a check.
        transaction_id: the unique key again.
        broker_name: who holds the half message.
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
    """The broker asks what became of a transaction; the body is the half message's record.

    Attributes are those of `EndTransaction` (CheckTransactionStateRequestHeader).
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
    """A discarded half message, by its id of address and offset, is to be checked from the start."""

    msg_id: str | None = None
    topic: str | None = None
