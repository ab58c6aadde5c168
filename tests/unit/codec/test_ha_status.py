"""The body of GET_BROKER_HA_STATUS: Java's names, what Java wrote, and garbage."""

from __future__ import annotations

import json

import pytest

from cometmq.codec.bodies.ha_status import (
    HaMaster,
    HaSlave,
    HaStatus,
    decode_ha_status,
    encode_ha_status,
)
from cometmq.model.errors import CodecError

MASTER = HaStatus(
    is_master=True,
    max_offset=900,
    in_sync_slaves=1,
    slaves=(
        HaSlave(address="10.0.0.2:41000", acked=800, gap=100, is_in_sync=True, sent=900),
        HaSlave(
            address="10.0.0.3:41001",
            acked=0,
            gap=900,
            is_in_sync=False,
            broker_id=2,
            error="gone",
        ),
    ),
    stored_ms=1_700_000_000_000,
    needed=2,
    refused=3,
)
SLAVE = HaStatus(
    is_master=False,
    master=HaMaster(
        address="10.0.0.1:10912", max_offset=800, read_ms=5, written_ms=6, is_active=False,
        error="the logs differ at 7", metadata_ms=9, metadata_error="gone",
    ),
)  # fmt: skip
# As a broker of RocketMQ 5.3.3 writes them: fields that HARuntimeInfo has getters for.
JAVA_MASTER = (
    b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,'
    b'"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"10.0.0.2:41000","diff":0,"inSync":true,'
    b'"slaveAckOffset":1234,"transferFromWhere":1234,"transferredByteInSecond":55}],"inSyncSlaveNums":1,'
    b'"master":true,"masterCommitLogMaxOffset":1234}'
)


@pytest.mark.parametrize("status", [MASTER, SLAVE])
def test_what_is_written_is_read_back(status):
    assert decode_ha_status(encode_ha_status(status)) == status


def test_what_java_wrote_is_read():
    status = decode_ha_status(JAVA_MASTER)
    (slave,) = status.slaves
    assert (status.is_master, status.max_offset, status.in_sync_slaves) == (True, 1234, 1)
    assert (slave.acked, slave.bytes_per_second, slave.broker_id) == (1234, 55, None)
    assert (status.needed, status.stored_ms) == (None, None)


def test_every_name_that_java_writes_is_written():
    """Also that of a master's client part and of a slave's list, which mqadmin's reader asks the size of."""
    java, ours = json.loads(JAVA_MASTER), json.loads(encode_ha_status(SLAVE))
    assert java.keys() <= ours.keys()
    assert java["haClientRuntimeInfo"].keys() <= ours["haClientRuntimeInfo"].keys()
    assert ours["haConnectionInfo"] == []
    of_slave = json.loads(encode_ha_status(MASTER))["haConnectionInfo"][0]
    assert java["haConnectionInfo"][0].keys() <= of_slave.keys()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"master":1}', b'{"master":true,"haConnectionInfo":[1]}']
)
def test_what_is_none_is_refused(body):
    with pytest.raises(CodecError):
        decode_ha_status(body)
