"""Requests of replication: its state (905 to 908), changes of the role (1008), and those of a slave to its master.

The requests that a slave refuses because of its role are here, too, with the codes and remarks of the refusals: sends
get SERVICE_NOT_AVAILABLE, which clients retry at another broker; a Java slave of 5.x answers SYSTEM_BUSY, which clients
of 4.9 do not retry. Changes of topics or groups are refused with Java's text.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from cometmq.broker.parts import Parts
from cometmq.broker.refusals import refusing
from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.replication.group.orders import GroupOrders
from cometmq.broker.replication.metadata import AskMaster, MasterMetadata
from cometmq.broker.tables.replication_state import SLAVE_REMARK, MasterState
from cometmq.broker.tables.table_copies import SLAVE_ID, TABLES, TableCopies
from cometmq.codec.bodies.ha_status import HaMaster, HaStatus, encode_ha_status
from cometmq.codec.headers.replication import (
    GroupMemberChange,
    GroupMembers,
    HaExchange,
    MinBrokerIdChange,
    ResetMasterFlushed,
    RoleChange,
    RoleChanged,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.codes import RequestCode as Code
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.net.answer import Answer
from cometmq.net.answering import as_is, body_of, by_code, by_fields, header_of
from cometmq.net.channel import Channel
from cometmq.net.channels import Channels
from cometmq.net.peer import Peer
from cometmq.net.requests import (
    Answers,
    AnyHandler,
    BatchHandler,
    Handler,
    Outcome,
    Read,
    WithAsker,
    refuse_all,
)
from cometmq.steps.steps import Steps


class ReplicaHandler:
    """Handles requests for the replication status (907), and between masters and slaves (905, 906, 908)."""

    def __init__(
        self, parts: Parts, *, metadata: MasterMetadata | None, ha_address: Callable[[], str]
    ) -> None:
        """`metadata` is only given on a slave; `ha_address` returns the address of the broker's HA port."""
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
            slaves=state.copies,
            master=None if state.master is None else _told(state.master, self._metadata),
            stored_ms=self._store.replica_side.dispatched_ms or None,
            needed=state.needed if state.is_master else None,
            refused=state.refused if state.is_master else None,
            group=state.group,
        )

    def _exchange(self, request: HaExchange) -> Answer:
        """Return this master's HA address, flushed offset and address; a slave returns none of them.

        Unlike in RocketMQ, a request that sets this broker's master is refused.
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
            raise invalid_parameter(
                f"masterFlushOffset={offset}: a physical offset must be 0 or more"
            )
        if not self._state().is_master:
            self._store.replica_side.note_master_flushed(offset)


def _told(master: MasterState, metadata: MasterMetadata | None) -> HaMaster:
    """Return a slave's report of its master: the reason if copying has stopped, and the state of the metadata."""
    return replace(
        master,
        error=master.stopped or master.error,
        metadata_ms=None if metadata is None else metadata.copied_ms,
        metadata_error=None if metadata is None else metadata.error,
    )


# Changes the role of this broker as requested.
ChangeRole = Callable[[RoleChange], Steps[RoleChanged]]


def role_answers(change: ChangeRole) -> Answers:
    """Return the handler of requests to make this broker the master or a slave while it runs."""
    return {RequestCode.NOTIFY_BROKER_ROLE_CHANGED: by_fields(RoleChange, change, header_of)}


# Requests to the leader of a group that elects it.
OF_GROUPS = (Code.TRANSFER_LEADERSHIP, Code.ADD_GROUP_MEMBER, Code.REMOVE_GROUP_MEMBER)


def group_answers(orders: GroupOrders) -> Answers:
    """Return the handlers of requests to change the leader or the members of a group that elects its leader."""
    work = (orders.transfer, orders.add, orders.remove)
    return {
        code: by_fields(GroupMemberChange, partial(_of_member, each), header_of)
        for code, each in zip(OF_GROUPS, work, strict=True)
    }


def _of_member(
    work: Callable[[str], Steps[GroupMembers]], request: GroupMemberChange
) -> Steps[GroupMembers]:
    return work(request.member)


# Timeout for an answer; BrokerOuterAPI waits 3 s, for tables a tenth as large.
TIMEOUT_MS = 10_000


def asking_master(channels: Channels) -> AskMaster:
    """Return a function that sends requests to a master; they end when the owner of `channels` closes these."""
    calls = NameserverChannels(channels)
    return lambda address, code, fields, done: calls(
        address, code, dict(fields), b"", timeout_ms=TIMEOUT_MS, done=done
    )


def told_by_master(look: Callable[[], None]) -> Callable[[Command, Channel], None]:
    """Return the handler of a master's notifications, which calls `look` if one is about a table."""

    def told(command: Command, _channel: Channel) -> None:
        if command.code in TABLES:
            look()

    return told


# Text of AdminBrokerProcessor.validateSlave of RocketMQ 5.3.3.
_NO_CHANGES = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
# RocketMQ's text, too.
_NO_READS = "[REJECTREQUEST]system busy, start flow control for a while"

_SENDS = (ResponseCode.SERVICE_NOT_AVAILABLE, SLAVE_REMARK)
_CHANGES = (ResponseCode.SYSTEM_ERROR, _NO_CHANGES)
_ENDS = (
    ResponseCode.SLAVE_NOT_AVAILABLE,
    "this broker is a slave: ask its master, which keeps transactions and timed messages",
)
_POPS = (
    ResponseCode.SERVICE_NOT_AVAILABLE,
    "this broker is a slave and does not support pop consumption, which only its master does; pull from it instead",
)

REFUSED: Mapping[int, tuple[int, str]] = {
    Code.SEND_MESSAGE: _SENDS,
    Code.SEND_MESSAGE_V2: _SENDS,
    Code.SEND_BATCH_MESSAGE: _SENDS,
    Code.SEND_REPLY_MESSAGE: _SENDS,
    Code.SEND_REPLY_MESSAGE_V2: _SENDS,
    Code.CONSUMER_SEND_MSG_BACK: _SENDS,
    Code.END_TRANSACTION: _ENDS,
    Code.RESUME_CHECK_HALF_MESSAGE: _ENDS,
    Code.RECALL_MESSAGE: _ENDS,
    Code.POP_MESSAGE: _POPS,
    Code.PEEK_MESSAGE: _POPS,
    Code.NOTIFICATION: _POPS,
    Code.POLLING_INFO: _POPS,
    Code.ACK_MESSAGE: _POPS,
    Code.BATCH_ACK_MESSAGE: _POPS,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _POPS,
    Code.POP_ROLLBACK: _POPS,
    Code.UPDATE_AND_CREATE_TOPIC: _CHANGES,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _CHANGES,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: _CHANGES,
    Code.DELETE_TOPIC_IN_BROKER: _CHANGES,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _CHANGES,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _CHANGES,
    Code.DELETE_SUBSCRIPTIONGROUP: _CHANGES,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _CHANGES,
    Code.SET_MESSAGE_REQUEST_MODE: _CHANGES,
    Code.CLONE_GROUP_OFFSET: _CHANGES,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _CHANGES,
}
# Also refused unless slaveReadEnable is true.
UNREAD: Mapping[int, tuple[int, str]] = {
    Code.PULL_MESSAGE: (ResponseCode.SYSTEM_BUSY, _NO_READS),
    Code.LITE_PULL_MESSAGE: (ResponseCode.SYSTEM_BUSY, _NO_READS),
}
# Also refused by a member of a group that elects its leader, from a restart until it knows the committed offsets of its group.
UNKNOWN: Mapping[int, tuple[int, str]] = {
    Code.QUERY_CONSUMER_OFFSET: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "this broker is a slave that does not know since its restart which offsets consumers have committed: ask its master",
    ),
}


# Also refused in a group that elects its leader, where other brokers have users of their own.
_USERS = (
    ResponseCode.SLAVE_NOT_AVAILABLE,
    "this broker does not lead its group: change users and policies at the leader, from which all members get them",
)
OF_LEADER: Mapping[int, tuple[int, str]] = dict.fromkeys(
    (
        Code.AUTH_CREATE_USER,
        Code.AUTH_UPDATE_USER,
        Code.AUTH_DELETE_USER,
        Code.AUTH_CREATE_ACL,
        Code.AUTH_UPDATE_ACL,
        Code.AUTH_DELETE_ACL,
    ),
    _USERS,
)


def slave_answers(
    answers: Iterable[Answers],
    *,
    is_read: bool,
    is_elected: bool = False,
    knows_offsets: bool = True,
) -> list[Answers]:
    """Return handlers with refusals for the requests that a slave refuses.

    Args:
        answers: The handlers of a master.
        is_read: Whether consumers may read, as with the setting slaveReadEnable.
        is_elected: Whether the slave is a member of a group that elects its leader.
        knows_offsets: Whether it knows the offsets that consumers have committed.
    """
    refused = {
        **REFUSED,
        **({} if is_read else UNREAD),
        **(OF_LEADER if is_elected else {}),
        **({} if knows_offsets else UNKNOWN),
    }
    batches = {refusal: _RefusedBatch(*refusal) for refusal in set(refused.values())}
    single = {refusal: refusing(*refusal) for refusal in set(refused.values())}

    def instead(code: int, answer: AnyHandler) -> AnyHandler:
        refusal = refused.get(code)
        if refusal is None:
            return answer
        return batches[refusal] if isinstance(answer, BatchHandler) else single[refusal]

    return [{code: instead(code, answer) for code, answer in part.items()} for part in answers]


class _RefusedBatch(BatchHandler):
    """A handler that refuses requests of one kind, sends or acknowledgements, one or several that were read together."""

    def __init__(self, code: int, remark: str) -> None:
        self._error = RequestError(code, remark)

    def handle(self, reads: list[Read]) -> None:
        for peer, commands in reads:
            refuse_all(commands, peer, self._error)

    def written(self) -> None:
        """Do nothing, because nothing was stored."""


def noting_slaves(answers: Answers, copies: TableCopies) -> Answers:
    """Return a master's handlers, which also tell `copies` which slaves request tables, if they send their id."""
    wrapped: dict[int, AnyHandler] = dict(answers)
    for code in TABLES:
        handler = answers.get(code)
        if handler is not None:
            assert not isinstance(handler, WithAsker | BatchHandler)
            wrapped[code] = _noting(handler, copies)
    return wrapped


def _noting(handler: Handler, copies: TableCopies) -> Handler:
    def note(command: Command, peer: Peer) -> Outcome:
        slave = command.fields.get(SLAVE_ID)
        if slave is not None:
            copies.asked(command.code, slave, peer)
        return handler(command, peer)

    return note
