"""The replication state of a broker: its slaves as the master sees them, or its master as a slave sees it.

Shown by mqadmin haStatus and `cometmq cluster replicas`; see docs/design/0048-replication.md.
"""

from cometmq.codec.bodies.ha_status import HaGroup, HaMaster, HaSlave
from cometmq.model.frozen import dataclass

SLAVE_REMARK = "this broker is a slave and accepts no messages; send to its master"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState(HaSlave):
    """A slave, as its master sees it.

    The leader of a group with elections does not measure `gap_seconds` and `bytes_per_second`: they are 0.

    Attributes:
        gap_seconds: Time since it had all of the log that the master had then, at most since it connected; 0 if it has
            all.
    """

    gap_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterState(HaMaster):
    """The master that a slave copies from, as the slave sees it; without the state of the metadata.

    In a group with elections, it has only the address of the leader's broker, `max_offset`, `is_active` and `stopped`.

    Attributes:
        stopped: Why replication has stopped until an operator acts, although it is tried again each minute; else None.
    """

    stopped: str | None = None


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
        group: The state of the group that elects its leader, as this member knows it; None without such a group.
    """

    is_master: bool
    max_offset: int
    copies: tuple[CopyState, ...] = ()
    in_sync: int = 1
    needed: int = 1
    refused: int = 0
    master: MasterState | None = None
    group: HaGroup | None = None

    @property
    def has_master(self) -> bool:
        """Whether the broker is a slave that is connected to its master, and no difference of their logs was found."""
        return self.master is not None and bool(self.master.is_active)
