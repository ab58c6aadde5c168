"""The replication state of a broker: its slaves as the master sees them, or its master as a slave sees it.

Shown by mqadmin haStatus and `cometmq cluster replicas`; see docs/design/0048-replication.md.
"""

from cometmq.model.frozen import dataclass

SLAVE_REMARK = "this broker is a slave and accepts no messages; send to its master"


@dataclass(frozen=True, slots=True)
class CopyState:
    """A slave, as its master sees it.

    The leader of a group with elections does not measure `gap_seconds` and `transferred_per_second`: they are 0.

    Attributes:
        address: Remote address of its connection, "ip:port".
        broker_id: Its id, if known; a Java slave does not send it.
        acked: Physical offset up to which it has acknowledged the log; 0 if it has not yet.
        gap: Number of bytes of the master's log that it has not acknowledged.
        gap_seconds: Time since it had all of the log that the master had then, at most since it connected; 0 if it has
            all.
        is_in_sync: Whether it has acknowledged an offset, and the gap is below haMaxGapNotInSync.
        transferred_per_second: Bytes of the log sent to it in the last full second.
        sent: Physical offset of the next byte to send to it (transferFromWhere of RocketMQ).
        error: Why it could not copy, for example why its last connection was closed; None once it acknowledges more.
    """

    address: str
    broker_id: int | None
    acked: int
    gap: int
    gap_seconds: float
    is_in_sync: bool
    transferred_per_second: int
    sent: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MasterState:
    """The master that a slave copies from, as the slave sees it.

    In a group with elections, it has only the address of the leader's broker, `max_offset`, `is_active` and `stopped`.

    Attributes:
        address: "host:port" of its HA port; empty if not known yet.
        max_offset: Physical offset after the last record of this slave's log.
        master_flushed: Physical offset up to which the master has reported its log as flushed; 0 if it has not.
        is_active: Whether the slave is connected, and no difference of the two logs was found.
        transferred_per_second: New bytes of the log received in the last full second.
        read_ms: When bytes were last received on the latest connection, epoch ms; 0 if never.
        written_ms: When this slave last sent something on it, epoch ms; 0 if never.
        stopped: Why replication has stopped until an operator acts, although it is tried again each minute; else None.
        error: Why the last connection ended or failed, or why an open one cannot store what it receives; else None.
    """

    address: str
    max_offset: int
    master_flushed: int
    is_active: bool
    transferred_per_second: int
    read_ms: int
    written_ms: int
    stopped: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicationState:
    """The replication state of one broker, a master or a slave.

    Attributes:
        is_master: Whether this broker is the master.
        max_offset: Physical offset after its last record.
        copies: Its slaves that are connected and copy the log; empty for a slave.
        in_sync: Number of members in sync, including this broker (inSyncSlaveNums of RocketMQ is one less). Slave: 1.
        needed: Number of members, including the broker, that must have a send for the answer SEND_OK; 1: no waiting.
        refused: Number of connections that this master has refused or closed as faulty; 0 for a slave.
        master: The master of a slave; None for a master.
    """

    is_master: bool
    max_offset: int
    copies: tuple[CopyState, ...] = ()
    in_sync: int = 1
    needed: int = 1
    refused: int = 0
    master: MasterState | None = None

    @property
    def has_master(self) -> bool:
        """Whether the broker is a slave that is connected to its master, and no difference of their logs was found."""
        return self.master is not None and self.master.is_active
