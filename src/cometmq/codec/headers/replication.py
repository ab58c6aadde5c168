"""Headers of requests about replication."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class HaExchange:
    """Header of EXCHANGE_BROKER_HA_INFO 906, request and answer; a request that only queries has None in all fields."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True)
class ResetMasterFlushed:
    """Header of RESET_MASTER_FLUSH_OFFSET 908, which sets the master's flushed offset that a slave notes; a master ignores it."""

    master_flush_offset: int


@dataclass(frozen=True, slots=True)
class MinBrokerIdChange:
    """Header of NOTIFY_MIN_BROKER_ID_CHANGE 905, by which Java's nameserver reports the member with the smallest id."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


@dataclass(frozen=True, slots=True)
class RoleChange:
    """Header of NOTIFY_BROKER_ROLE_CHANGED 1008, which makes a broker the master or a slave.

    The first four fields are RocketMQ's, whose controller sends this; the others are CometMQ's.

    Attributes:
        master_address: Address of the broker that is to be the master; ignored here.
        master_epoch: Ignored here.
        sync_state_set_epoch: Ignored here.
        master_broker_id: The present id of that broker; None if no slave is to succeed the receiver.
        broker_id: The id that the receiver is to have; 0: it is to be the master.
        broker_role: The new master's brokerRole; None for ASYNC_MASTER. Not used for a slave.
        log_end: Physical offset up to which the new master must have the log; None if unknown.
        is_forced: Whether to make the receiver the master even if messages may be lost.
    """

    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None
    master_broker_id: int | None = None
    broker_id: int | None = None
    broker_role: str | None = None
    log_end: int | None = None
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """Header of the answer to NOTIFY_BROKER_ROLE_CHANGED 1008 of CometMQ: the broker's new id.

    `log_end` is the physical offset at which the broker's log ended when it changed its role.
    """

    broker_id: int
    log_end: int


@dataclass(frozen=True, slots=True)
class GroupMemberChange:
    """Header of TRANSFER_LEADERSHIP, ADD_GROUP_MEMBER and REMOVE_GROUP_MEMBER, requests of CometMQ to a group's leader.

    Attributes:
        member: Id of the member that is to lead or leave; of a new member `ID-HOST:PORT`, as in dLegerPeers.
    """

    member: str


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """Header of the answer to TRANSFER_LEADERSHIP, ADD_GROUP_MEMBER and REMOVE_GROUP_MEMBER: the group after the change.

    Attributes:
        leader: Id of the leader; empty if it is unknown.
        term: Latest term that the answering member knows.
        voters: Ids of the members that vote, separated by commas.
        waits_for: Why a new member does not vote yet; None if there is none.
    """

    leader: str
    term: int
    voters: str
    waits_for: str | None = None
