"""Requests 905 to 908: the state of replication, and messages between the members of a group."""

from collections.abc import Callable

from cometmq.broker.replication.metadata import MasterMetadata
from cometmq.broker.tables.replication_state import CopyState, MasterState, ReplicationState
from cometmq.codec.bodies.ha_status import HaMaster, HaSlave, HaStatus, encode_ha_status
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.replication import HaExchange, MinBrokerIdChange, ResetMasterFlushed
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.store.message_store import MessageStore


class ReplicaHandler:
    """Handles requests for the replication status, and those of masters and slaves to each other."""

    def __init__(
        self,
        state: Callable[[], ReplicationState],
        *,
        metadata: MasterMetadata | None,
        store: MessageStore,
        address: str,
        ha_address: Callable[[], str],
    ) -> None:
        """`metadata` is only set on a slave; the addresses are the broker's own."""
        self._state = state
        self._metadata = metadata
        self._store = store
        self._address = address
        self._ha_address = ha_address
        self.answers: Answers = {
            RequestCode.GET_BROKER_HA_STATUS: self.status,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self.exchange,
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: self.min_id_changed,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self.reset_master_flushed,
        }

    def status(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with the replication state of this master or slave as a JSON body (GET_BROKER_HA_STATUS 907)."""
        state = self._state()
        told = HaStatus(
            is_master=state.is_master,
            max_offset=state.max_offset if state.is_master else 0,
            in_sync_slaves=max(state.in_sync - 1, 0) if state.is_master else 0,
            slaves=tuple(map(_slave, state.copies)),
            master=None if state.master is None else _master(state.master, self._metadata),
            stored_ms=self._store.replica_side.dispatched_ms or None,
            needed=state.needed if state.is_master else None,
            refused=state.refused if state.is_master else None,
        )
        return Answer(body=encode_ha_status(told))

    def exchange(self, command: Command, _peer: Peer) -> Answer:
        """Answer with a master's addresses and flushed offset, or as a slave without them (EXCHANGE_BROKER_HA_INFO 906).

        Differs: a request that sets this broker's master is refused.
        """
        request = decode_fields(HaExchange, command.fields)
        if request.master_ha_address is not None:
            raise RequestError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "a broker learns the address of its master only from nameservers "
                "(enableSlaveActingMaster is not supported)",
            )
        if not self._state().is_master:
            return Answer()
        told = HaExchange(self._ha_address(), self._store.flushed_offset, self._address)
        return Answer(fields=encode_fields(told))

    def min_id_changed(self, command: Command, _peer: Peer) -> Answer:
        """Do nothing, as RocketMQ without enableSlaveActingMaster (NOTIFY_MIN_BROKER_ID_CHANGE 905)."""
        decode_fields(MinBrokerIdChange, command.fields)
        return Answer()

    def reset_master_flushed(self, command: Command, _peer: Peer) -> Answer:
        """Note the master's flushed offset for a slave's next checkpoint (RESET_MASTER_FLUSH_OFFSET 908); a master ignores it.

        Refuses a negative offset.
        """
        offset = decode_fields(ResetMasterFlushed, command.fields).master_flush_offset
        if offset < 0:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"masterFlushOffset={offset}: a physical offset must be 0 or more",
            )
        if not self._state().is_master:
            self._store.replica_side.note_master_flushed(offset)
        return Answer()


def _slave(copy: CopyState) -> HaSlave:
    return HaSlave(
        address=copy.address,
        acked=copy.acked,
        gap=copy.gap,
        is_in_sync=copy.is_in_sync,
        bytes_per_second=copy.transferred_per_second,
        sent=copy.sent,
        broker_id=copy.broker_id,
        error=copy.error,
    )


def _master(state: MasterState, metadata: MasterMetadata | None) -> HaMaster:
    return HaMaster(
        address=state.address,
        max_offset=state.max_offset,
        master_flushed=state.master_flushed,
        bytes_per_second=state.transferred_per_second,
        read_ms=state.read_ms,
        written_ms=state.written_ms,
        is_active=state.is_active,
        error=state.stopped or state.error,
        metadata_ms=None if metadata is None else metadata.copied_ms,
        metadata_error=None if metadata is None else metadata.error,
    )
