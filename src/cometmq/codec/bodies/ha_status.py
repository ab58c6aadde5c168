"""The replication status of a broker: the answer to GET_BROKER_HA_STATUS 907.

Source: HARuntimeInfo of RocketMQ 5.3.3, with its field names. RocketMQ ignores unknown fields, so CometMQ adds some,
such as why a member does not replicate, ids, when the newest record was stored, and the state of the metadata.
"""

from collections.abc import Mapping
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
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
        written_ms: When the slave last reported on it, ms since 1970; 0 if never.
        is_active: Whether the slave is connected to it and the two logs fit; None in answers of RocketMQ.
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
    """

    is_master: bool
    max_offset: int = 0
    in_sync_slaves: int = 0
    slaves: tuple[HaSlave, ...] = ()
    master: HaMaster | None = None
    stored_ms: int | None = None
    needed: int | None = None
    refused: int | None = None


def encode_ha_status(status: HaStatus) -> bytes:
    """Encode the JSON body of the answer to GET_BROKER_HA_STATUS 907."""
    master = status.master or HaMaster(address="", max_offset=0)
    return fastjson.dumps(
        _known(
            {
                "haClientRuntimeInfo": _master_json(master),
                "haConnectionInfo": [_slave_json(slave) for slave in status.slaves],
                "inSyncSlaveNums": status.in_sync_slaves,
                "master": status.is_master,
                "masterCommitLogMaxOffset": status.max_offset,
                "newestStoreTimestamp": status.stored_ms,
                "neededReplicas": status.needed,
                "refusedConnections": status.refused,
            }
        )
    )


def decode_ha_status(content: bytes) -> HaStatus:
    """Decode the answer of CometMQ or RocketMQ to GET_BROKER_HA_STATUS 907.

    Raises CodecError if it is malformed.
    """
    body = load_object(content, "HA status")
    is_master = body.flag("master")
    return HaStatus(
        is_master=is_master,
        max_offset=body.int64("masterCommitLogMaxOffset", 0),
        in_sync_slaves=body.int32("inSyncSlaveNums", 0),
        slaves=tuple(map(_slave, body.objects("haConnectionInfo"))),
        master=None if is_master else _master(body.member("haClientRuntimeInfo")),
        stored_ms=_maybe_int(body, "newestStoreTimestamp"),
        needed=_maybe_int(body, "neededReplicas"),
        refused=_maybe_int(body, "refusedConnections"),
    )


def _slave_json(slave: HaSlave) -> dict[str, Any]:
    return _known(
        {
            "addr": slave.address,
            "brokerId": slave.broker_id,
            "diff": slave.gap,
            "error": slave.error,
            "inSync": slave.is_in_sync,
            "slaveAckOffset": slave.acked,
            "transferFromWhere": slave.sent,
            "transferredByteInSecond": slave.bytes_per_second,
        }
    )


def _slave(part: JsonObject) -> HaSlave:
    return HaSlave(
        address=part.text("addr", ""),
        acked=part.int64("slaveAckOffset", 0),
        gap=part.int64("diff", 0),
        is_in_sync=part.flag("inSync", default=False),
        bytes_per_second=part.int64("transferredByteInSecond", 0),
        sent=part.int64("transferFromWhere", 0),
        broker_id=_maybe_int(part, "brokerId"),
        error=part.maybe_text("error"),
    )


def _master_json(master: HaMaster) -> dict[str, Any]:
    return _known(
        {
            "active": master.is_active,
            "error": master.error,
            "lastReadTimestamp": master.read_ms,
            "lastWriteTimestamp": master.written_ms,
            "masterAddr": master.address,
            "masterFlushOffset": master.master_flushed,
            "maxOffset": master.max_offset,
            "metadataError": master.metadata_error,
            "metadataTimestamp": master.metadata_ms,
            "transferredByteInSecond": master.bytes_per_second,
        }
    )


def _master(part: JsonObject) -> HaMaster:
    return HaMaster(
        address=part.text("masterAddr", ""),
        max_offset=part.int64("maxOffset", 0),
        master_flushed=part.int64("masterFlushOffset", 0),
        bytes_per_second=part.int64("transferredByteInSecond", 0),
        read_ms=part.int64("lastReadTimestamp", 0),
        written_ms=part.int64("lastWriteTimestamp", 0),
        is_active=part.flag("active") if "active" in part else None,
        error=part.maybe_text("error"),
        metadata_ms=_maybe_int(part, "metadataTimestamp"),
        metadata_error=part.maybe_text("metadataError"),
    )


def _maybe_int(part: JsonObject, key: str) -> int | None:
    return part.int64(key) if key in part else None


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members whose values are not None."""
    return {key: value for key, value in values.items() if value is not None}
