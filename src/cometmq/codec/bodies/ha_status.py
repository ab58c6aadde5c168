"""The replication status of a broker: the answer to GET_BROKER_HA_STATUS 907.

Source: HARuntimeInfo of RocketMQ 5.3.3, with its field names. RocketMQ ignores unknown fields, so CometMQ adds some,
such as why a member does not replicate, ids, when the newest record was stored, and the state of the metadata.
"""

from dataclasses import replace

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.members import JsonMember, JsonMembers
from cometmq.model.frozen import dataclass

# Text between the reason why a slave has stopped replicating and the advice.
STOPPED_WORDS = ". Nothing is copied any more, and this slave stays readable. "


@dataclass(frozen=True, slots=True, kw_only=True)
class HaSlave:
    """A slave as seen by its master (HAConnectionRuntimeInfo).

    Attributes:
        address: "ip:port" that it connects from (from RocketMQ "/ip:port").
        acked: Physical offset up to which it has acknowledged the log.
        gap: Bytes that it is behind.
        is_in_sync: Whether it counts as in sync for sends.
        bytes_per_second: Bytes of the log sent to it in the last full second.
        sent: Physical offset of the next byte to send.
        broker_id: Its broker id, or None if not reported.
        error: Why it could not copy, such as a fault on an earlier connection, until it acknowledges more; None if no
            reason is known, or from RocketMQ.
    """

    address: str
    acked: int
    gap: int
    is_in_sync: bool
    bytes_per_second: int = 0
    sent: int = 0
    broker_id: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaMaster:
    """A master as seen by its slave (HAClientRuntimeInfo).

    Attributes:
        address: Address of the master's HA port; empty if unknown.
        max_offset: Physical offset after the slave's last record.
        master_flushed: Flushed offset of the master's log, as last reported.
        bytes_per_second: Bytes of the log received in the last full second.
        read_ms: When bytes last arrived on the latest connection, ms since 1970; 0 if never.
        written_ms: When the slave last reported on that connection, ms since 1970; 0 if never.
        is_active: Whether the slave is connected to it and can copy its log; None in answers of RocketMQ.
        error: Why the slave does not or cannot replicate, if known, or None.
        metadata_ms: When topics, groups and offsets were last copied, ms since 1970; 0 if never; None if unknown.
        metadata_error: Why the metadata is not copied, or None.
    """

    address: str
    max_offset: int
    master_flushed: int = 0
    bytes_per_second: int = 0
    read_ms: int = 0
    written_ms: int = 0
    is_active: bool | None = None
    error: str | None = None
    metadata_ms: int | None = None
    metadata_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaGroupMember:
    """A member of a group that elects its leader, as the broker that answers knows it.

    Attributes:
        member_id: Its id in dLegerPeers.
        address: "host:port" at which it serves the other members, as in dLegerPeers.
        broker_id: Its broker id while it does not lead.
        is_connected: Whether the broker that answers is connected to it; True for that broker itself.
        acked: Physical offset up to which the leader knows it to have stored the log; None if the broker that answers is not
            the leader, or has no answer of it since it leads.
        gap: Bytes of the leader's log that it has not acknowledged; None like `acked`.
        error: Why it is not connected; None while it is.
        votes: Whether it counts for a majority; a new member only copies the log until it has caught up.
    """

    member_id: str
    address: str
    broker_id: int
    is_connected: bool
    acked: int | None = None
    gap: int | None = None
    error: str | None = None
    votes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HaGroup:
    """A group that elects its leader, as one of its members knows it.

    Attributes:
        name: Name of the group.
        own: Id of the member that answers.
        role: Its role: "leader", "follower", "candidate", or "stopped" (its disk or log failed, and it takes no part).
        term: Latest term that it knows.
        leader: Id of the leader of that term; empty if it knows none.
        confirmed: Physical offset up to which it knows the log to be stored by a majority.
        lease_ms: Time for which this leader may acknowledge messages if no other member answers it, ms; None if it does not lead.
        elections: Number of times since its start that it learned of a new term.
        members: All members, in the order of dLegerPeers.
    """

    name: str
    own: str
    role: str
    term: int
    leader: str = ""
    confirmed: int = 0
    lease_ms: int | None = None
    elections: int = 0
    members: tuple[HaGroupMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HaStatus:
    """The answer to GET_BROKER_HA_STATUS.

    Attributes:
        is_master: Whether the broker is a master.
        max_offset: Physical offset after the master's last record; 0 for a slave.
        in_sync_slaves: Number of slaves that count as in sync for sends.
        slaves: Connected slaves of a master.
        master: Master of a slave, or None.
        stored_ms: When the newest dispatched record was stored, ms since 1970; None if unknown or without records.
        needed: Members that a send waits for, including the master; None if unknown and for a slave.
        refused: Number of replication connections that it refused or closed as faulty; None if unknown and for a slave.
        group: The group that elects its leader, if the broker is a member of one, or None.
    """

    is_master: bool
    max_offset: int = 0
    in_sync_slaves: int = 0
    slaves: tuple[HaSlave, ...] = ()
    master: HaMaster | None = None
    stored_ms: int | None = None
    needed: int | None = None
    refused: int | None = None
    group: HaGroup | None = None


_SLAVE = JsonMembers(
    HaSlave,
    JsonMember("addr", "address", JsonObject.text, ""),
    JsonMember("brokerId", "broker_id", JsonObject.maybe_int64),
    JsonMember("diff", "gap", JsonObject.int64, 0),
    JsonMember("error", "error", JsonObject.maybe_text),
    JsonMember("inSync", "is_in_sync", JsonObject.flag, default=False),
    JsonMember("slaveAckOffset", "acked", JsonObject.int64, 0),
    JsonMember("transferFromWhere", "sent", JsonObject.int64, 0),
    JsonMember("transferredByteInSecond", "bytes_per_second", JsonObject.int64, 0),
)
_MASTER = JsonMembers(
    HaMaster,
    JsonMember("active", "is_active", JsonObject.maybe_flag),
    JsonMember("error", "error", JsonObject.maybe_text),
    JsonMember("lastReadTimestamp", "read_ms", JsonObject.int64, 0),
    JsonMember("lastWriteTimestamp", "written_ms", JsonObject.int64, 0),
    JsonMember("masterAddr", "address", JsonObject.text, ""),
    JsonMember("masterFlushOffset", "master_flushed", JsonObject.int64, 0),
    JsonMember("maxOffset", "max_offset", JsonObject.int64, 0),
    JsonMember("metadataError", "metadata_error", JsonObject.maybe_text),
    JsonMember("metadataTimestamp", "metadata_ms", JsonObject.maybe_int64),
    JsonMember("transferredByteInSecond", "bytes_per_second", JsonObject.int64, 0),
)
_GROUP_MEMBER = JsonMembers(
    HaGroupMember,
    JsonMember("addr", "address", JsonObject.text, ""),
    JsonMember("brokerId", "broker_id", JsonObject.int64),
    JsonMember("connected", "is_connected", JsonObject.flag, default=False),
    JsonMember("diff", "gap", JsonObject.maybe_int64),
    JsonMember("error", "error", JsonObject.maybe_text),
    JsonMember("id", "member_id", JsonObject.text),
    JsonMember("slaveAckOffset", "acked", JsonObject.maybe_int64),
    JsonMember("votes", "votes", JsonObject.flag, default=True),
)
_GROUP = JsonMembers(
    HaGroup,
    JsonMember("confirmOffset", "confirmed", JsonObject.int64, 0),
    JsonMember("elections", "elections", JsonObject.int64, 0),
    JsonMember("group", "name", JsonObject.text, ""),
    JsonMember("leader", "leader", JsonObject.text, ""),
    JsonMember("leaseMillis", "lease_ms", JsonObject.maybe_int64),
    JsonMember("members", "members", _GROUP_MEMBER.all_of, write=_GROUP_MEMBER.list_of),
    JsonMember("role", "role", JsonObject.text),
    JsonMember("selfId", "own", JsonObject.text),
    JsonMember("term", "term", JsonObject.int64),
)


def _group_in(body: JsonObject, key: str) -> HaGroup | None:
    return _GROUP.in_field(body, key) if key in body else None


_STATUS = JsonMembers(
    HaStatus,
    JsonMember("electedGroup", "group", _group_in, write=_GROUP.to_json),
    JsonMember("haClientRuntimeInfo", "master", _MASTER.in_field, write=_MASTER.to_json),
    JsonMember("haConnectionInfo", "slaves", _SLAVE.all_of, write=_SLAVE.list_of),
    JsonMember("inSyncSlaveNums", "in_sync_slaves", JsonObject.int32, 0),
    JsonMember("master", "is_master", JsonObject.flag),
    JsonMember("masterCommitLogMaxOffset", "max_offset", JsonObject.int64, 0),
    JsonMember("newestStoreTimestamp", "stored_ms", JsonObject.maybe_int64),
    JsonMember("neededReplicas", "needed", JsonObject.maybe_int64),
    JsonMember("refusedConnections", "refused", JsonObject.maybe_int64),
)


def encode_ha_status(status: HaStatus) -> bytes:
    """Encode the JSON body of the answer to GET_BROKER_HA_STATUS 907."""
    master = status.master or HaMaster(address="", max_offset=0)
    return fastjson.dumps(_STATUS.to_json(replace(status, master=master)))


def decode_ha_status(content: bytes) -> HaStatus:
    """Decode the answer of CometMQ or RocketMQ to GET_BROKER_HA_STATUS 907.

    Raises CodecError if it is malformed.
    """
    body = load_object(content, "HA status")
    return _STATUS.of(body, **{"master": None} if body.flag("master") else {})
