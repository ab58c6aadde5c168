"""The state of the copies of a broker's log: the answer to GET_BROKER_HA_STATUS 907.

Source: HARuntimeInfo of RocketMQ 5.3.3, whose names these are. Its readers pass over what they do not know, so an
answer of ours says more: why a member does not copy, ids, how old its newest record is, and how its metadata is.
"""

from collections.abc import Mapping
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.model.frozen import dataclass

# Between the reason why a slave has stopped copying, and the advice.
STOPPED_WORDS = ". Nothing is copied any more, and this slave stays readable. "


@dataclass(frozen=True, slots=True, kw_only=True)
class HaSlave:
    """A slave, as its master sees it (HAConnectionRuntimeInfo).

    Attributes:
        address: "ip:port" that it connects from.
        acked: physical offset up to which it says to have the log.
        gap: bytes that it lacks.
        is_in_sync: whether sends may count on it.
        bytes_per_second: that it is sent.
        sent: physical offset of the next byte for it.
        broker_id: its id; None: it did not say.
        error: why the connection before ended; None: it did not, or no answer of ours.
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
    """The master, as its slave sees it (HAClientRuntimeInfo).

    Attributes:
        address: of its HA port; empty: not known.
        max_offset: physical offset behind the slave's last record.
        master_flushed: how far the master's log is on its device, as it said.
        bytes_per_second: that come.
        read_ms: when bytes came last, ms since 1970.
        written_ms: when the slave reported last, ms since 1970.
        is_active: whether it copies; None: no answer of ours.
        error: why it does not copy.
        metadata_ms: when topics, groups and offsets were last copied, ms since 1970; None: no answer of ours.
        metadata_error: why they are not.
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
    """The answer.

    Attributes:
        is_master: whether others copy from it.
        max_offset: physical offset behind the master's last record; of a slave 0.
        in_sync_slaves: slaves that sends may count on.
        slaves: of a master.
        master: of a slave.
        stored_ms: when the newest record was stored, ms since 1970; None: no answer of ours, or no record.
        needed: members that a send waits for, the master counted; None: no answer of ours.
        refused: connections that were turned away; None: no answer of ours.
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
    """The body of the answer."""
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
    """The status in a body, of ours or of Java's.

    Raises:
        CodecError: it is none; the message names the field.
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
    """Without what is None: Java's readers have no field for it."""
    return {key: value for key, value in values.items() if value is not None}
