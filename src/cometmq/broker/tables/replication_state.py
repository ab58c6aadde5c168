"""The state of a broker's copies: its slaves as a master sees them, its master as a slave does.

Plain values, made when somebody asks (mqadmin haStatus, `cometmq cluster replicas`); what they are made from is
docs/design/0048-replication.md.
"""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class CopyState:
    """A slave, as its master sees it.

    Attributes:
        address: "ip:port" that it connects from.
        broker_id: its id, where it said so; a Java slave does not.
        acked: physical offset up to which it says to have the log.
        gap: bytes of the master's log that it does not have.
        is_in_sync: the gap is below haMaxGapNotInSync, so sends may count on it.
        transferred_per_second: bytes it was sent in the last whole second.
        sent: physical offset of the next byte to be sent to it (transferFromWhere of RocketMQ).
        error: why the connection before this one ended; None: there was none, or it ended well.
    """

    address: str
    broker_id: int | None
    acked: int
    gap: int
    is_in_sync: bool
    transferred_per_second: int
    sent: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MasterState:
    """The master that a slave copies from, as the slave sees it.

    Attributes:
        address: "ip:port" of its HA port; empty: not known yet.
        max_offset: physical offset behind the last record here.
        master_flushed: up to here the master said to have its log on the device; 0: it did not.
        is_active: bytes may come: it is connected, and the two logs fit.
        transferred_per_second: bytes that came in the last whole second.
        read_ms: when bytes came last, ms since 1970; 0: never.
        written_ms: when this slave reported last, ms since 1970; 0: never.
        stopped: why nothing is copied any more, for people; None: copying goes on, or is tried again.
        error: why the last connection ended, or none came about; None: it stands.
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
    """The state of all copies of one broker's log.

    Attributes:
        is_master: whether others copy from it.
        max_offset: physical offset behind its last record.
        copies: its slaves; empty for a slave.
        in_sync: how many members have the log, itself counted (inSyncSlaveNums of RocketMQ is one less).
        needed: how many must, itself counted, before a send is answered; 1: nobody waits.
        refused: connections that were closed because of who came or what came, since the start.
        master: of a slave, whom it copies from; None for a master.
    """

    is_master: bool
    max_offset: int
    copies: tuple[CopyState, ...]
    in_sync: int
    needed: int
    refused: int
    master: MasterState | None

    @property
    def has_master(self) -> bool:
        """Whether a slave copies just now, so that its log is known to be its master's."""
        return self.master is not None and self.master.is_active
