"""Requests 905 to 908 about the state of replication, and 1008, which changes the role of this broker."""

from collections.abc import Callable

from cometmq.broker.parts import Parts
from cometmq.broker.replication.metadata import MasterMetadata
from cometmq.broker.tables.replication_state import CopyState, MasterState
from cometmq.codec.bodies.ha_status import HaMaster, HaSlave, HaStatus, encode_ha_status
from cometmq.codec.headers.replication import (
    HaExchange,
    MinBrokerIdChange,
    ResetMasterFlushed,
    RoleChange,
    RoleChanged,
)
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.answering import as_is, body_of, by_code, by_fields, header_of
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


class ReplicaHandler:
    """Handles requests for the replication status, and those of masters and slaves to each other."""

    def __init__(
        self, parts: Parts, *, metadata: MasterMetadata | None, ha_address: Callable[[], str]
    ) -> None:
        """`metadata` is only given on a slave; `ha_address` returns the broker's own address for slaves."""
        self._state, self._store, self._address = parts.replication, parts.store, parts.address
        self._metadata, self._ha_address = metadata, ha_address
        self.answers: Answers = {
            RequestCode.GET_BROKER_HA_STATUS: by_code(self._status, body_of(encode_ha_status)),
            RequestCode.EXCHANGE_BROKER_HA_INFO: by_fields(HaExchange, self._exchange, as_is),
            # Without effect, as in RocketMQ without enableSlaveActingMaster.
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: by_fields(
                MinBrokerIdChange, lambda _told: None
            ),
            RequestCode.RESET_MASTER_FLUSH_OFFSET: by_fields(
                ResetMasterFlushed, self._reset_master_flushed
            ),
        }

    def _status(self) -> HaStatus:
        state = self._state()
        return HaStatus(
            is_master=state.is_master,
            max_offset=state.max_offset if state.is_master else 0,
            in_sync_slaves=max(state.in_sync - 1, 0) if state.is_master else 0,
            slaves=tuple(map(_slave, state.copies)),
            master=None if state.master is None else _master(state.master, self._metadata),
            stored_ms=self._store.replica_side.dispatched_ms or None,
            needed=state.needed if state.is_master else None,
            refused=state.refused if state.is_master else None,
        )

    def _exchange(self, request: HaExchange) -> Answer:
        """Answer with a master's addresses and flushed offset, or as a slave without them.

        Differs: a request that sets this broker's master is refused.
        """
        if request.master_ha_address is not None:
            raise RequestError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "a broker learns the address of its master only from nameservers "
                "(enableSlaveActingMaster is not supported)",
            )
        if not self._state().is_master:
            return Answer()
        flushed = self._store.flushed_offset
        return header_of(HaExchange(self._ha_address(), flushed, self._address))

    def _reset_master_flushed(self, request: ResetMasterFlushed) -> None:
        """Note the master's flushed offset for a slave's next checkpoint; refuse a negative one; a master ignores it."""
        offset = request.master_flush_offset
        if offset < 0:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"masterFlushOffset={offset}: a physical offset must be 0 or more",
            )
        if not self._state().is_master:
            self._store.replica_side.note_master_flushed(offset)


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


# Changes the role as wished; the second argument names who asks, for the log.
ChangeRole = Callable[[RoleChange], Steps[RoleChanged]]


def role_answers(change: ChangeRole) -> Answers:
    """Return the handler of requests to make this broker the master or a slave while it runs."""
    return {RequestCode.NOTIFY_BROKER_ROLE_CHANGED: by_fields(RoleChange, change, header_of)}
