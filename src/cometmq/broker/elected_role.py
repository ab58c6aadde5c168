"""The roles of a broker in a group that elects its leader: the leader is the master, the others are its slaves.

The role follows the election (`replication.group`). When a member stops leading, its store refuses messages at once; the
rest of the change follows. A new leader becomes the master as soon as it has committed a record of its term
and dispatched everything before it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from cometmq.broker.parts import Parts
from cometmq.broker.registration.group_watch import Fence
from cometmq.broker.replication.group.elected_group import ElectedGroup
from cometmq.broker.replication.metadata import AskMaster, KnownLog
from cometmq.broker.replication.requests import GROUP_TERM, of_term
from cometmq.broker.role import Ground, MasterRole, RunningRole, SlaveRole
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.codec.headers.nameserver import RegisterBrokerResponse
from cometmq.codec.headers.replication import RoleChange, RoleChanged
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.route import MASTER_ID
from cometmq.net.requests import Answers
from cometmq.net.tasks import Tasks
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
# Changes of topics and groups are announced together after this time.
_ANNOUNCE_SECONDS = 0.05


class ElectedMaster(MasterRole):
    """The role of the leader of a group with elections, for one term."""

    replicas: ElectedGroup  # type: ignore[assignment]  # Set once, by `begin`.

    def __init__(self, ground: Ground, group: ElectedGroup, term: int) -> None:
        super().__init__(ground)
        self.term = self.epoch = term
        self._group = group
        self._is_announced = False  # The others are about to be told of a change.

    def _open_log(self) -> None:
        self._group.running.accept_puts(self.term)

    def _open_replicas(self) -> None:
        self.replicas = self._group

    def _end_replication(self) -> None:
        """Do nothing: replication in the group goes on."""

    def _prepare(self, parts: Parts) -> None:
        """Let slaves copy the tables soon after changes of topics and groups: a failover loses changes not copied."""
        parts.topics.on_change.append(lambda _topic: self._announce_soon())
        parts.groups.saver.on_dirty.append(self._announce_soon)

    def _announce_soon(self) -> None:
        if not self._is_announced:
            self._is_announced = True
            asyncio.get_running_loop().call_later(_ANNOUNCE_SECONDS, self._announce)

    def _announce(self) -> None:
        self._is_announced = False
        self.parts.table_copies.announce()

    def _role_answers(self, answers: Iterable[Answers]) -> list[Answers]:
        return [of_term(part, self._leads) for part in super()._role_answers(answers)]

    def _leads(self, term: str) -> bool:
        return term == str(self.term) and self._group.running.is_serving

    def _make_fence(self) -> Fence | None:
        """Return None: the lease decides who may accept messages, not a nameserver."""
        return None


class ElectedSlave(SlaveRole):
    """The role of a member of a group with elections that does not lead."""

    replicas: ElectedGroup  # type: ignore[assignment]  # Set once, by `begin`.

    def __init__(self, ground: Ground, group: ElectedGroup) -> None:
        super().__init__(ground)
        self._group = group

    def _open_replicas(self) -> None:
        self.replicas = self._group

    def _end_replication(self) -> None:
        """Do nothing: replication in the group goes on."""

    def _master_told(self, master: RegisterBrokerResponse) -> None:
        """Ignore the master that a nameserver names: the group knows its leader."""

    def _role_answers(self, answers: Iterable[Answers]) -> list[Answers]:
        return [of_term(part, lambda _term: False) for part in super()._role_answers(answers)]

    def _known_log(self) -> KnownLog:
        running = self._group.running
        return KnownLog(
            end=lambda: running.member.log.commit,
            is_joined=lambda: self._group.state().has_master,
            term=lambda: running.member.term,
            is_counted=False,
        )

    def _asking(self, ask: AskMaster) -> AskMaster:
        """Return `ask` with this member's term added to each request: the leader of another term must refuse it."""

        def asked(
            address: str,
            code: int,
            fields: Mapping[str, str],
            done: Callable[[PeerAnswer | None, BaseException | None], None],
        ) -> None:
            term = str(self._group.running.member.term)
            ask(address, code, {**fields, GROUP_TERM: term}, done)

        return asked

    def _master_address(self) -> str | None:
        return self._group.leader_address

    @property
    def _is_read(self) -> bool:
        return self._group.running.is_readable

    def look_again(self) -> None:
        """Serve or refuse reads, as is possible now, and wake the job that copies the leader's tables."""
        self.serve_again()
        self.look()


class ElectedRoles:
    """The current role of a member (`role`), which follows the election."""

    def __init__(self, ground: Ground, group: ElectedGroup) -> None:
        self.role: RunningRole = ElectedSlave(ground, group)
        self._ground = ground
        self._group = group
        self._in_force = ground.parts.in_force
        self._tasks = Tasks("role")
        self._is_changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start this member of the group, and follow the group's elections."""
        self._group.running.on_change = self._is_changed.set
        self._group.start()
        self._following = self._tasks.spawn(self._follow(), "follow")

    async def close(self) -> None:
        """Wait for the change in progress, if any, then stop the jobs of the role and unregister at the nameservers."""
        self._is_closed = True
        self._is_changed.set()
        if self._following is not None:
            await asyncio.wait([self._following])
        await self.role.leave(is_final=True)

    def change(self, _wish: RoleChange) -> Steps[RoleChanged]:
        """Refuse a change by hand; raise RequestError."""
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            "the role of this broker is unchanged: its group elects the leader (enableDLegerCommitLog). Set preferredLeaderId "
            "on all members to prefer one",
        )

    async def _follow(self) -> None:
        while True:
            await self._is_changed.wait()
            self._is_changed.clear()
            if self._is_closed:
                return
            try:
                await self._adapt()
            except Exception:  # noqa: BLE001  The next attempt may succeed.
                _log.exception("this broker could not change its role and tries it again")
                await asyncio.sleep(_RETRY_SECONDS)
                self._is_changed.set()

    async def _adapt(self) -> None:
        role, running = self.role, self._group.running
        term = running.member.term
        if running.is_serving:
            if not isinstance(role, ElectedMaster) or role.term != term:
                await self._lead(term)
        elif isinstance(role, ElectedSlave):
            role.look_again()
        else:
            await self._become(ElectedSlave(self._ground, self._group), self._slave())
            _log.warning("this broker is a slave now, with brokerId=%d", self._group.broker_id)

    async def _lead(self, term: int) -> None:
        try:
            await self._become(
                ElectedMaster(self._ground, self._group, term),
                {"brokerRole": BrokerRole.SYNC_MASTER.name, "brokerId": str(MASTER_ID)},
            )
        except Exception:
            await self._become(ElectedSlave(self._ground, self._group), self._slave())
            raise
        _log.warning("this broker is the master now, elected in term %d", term)

    def _slave(self) -> dict[str, str]:
        return {"brokerRole": BrokerRole.SLAVE.name, "brokerId": str(self._group.broker_id)}

    async def _become(self, role: RunningRole, values: Mapping[str, str]) -> None:
        """End the current role, and begin another one with these settings."""
        await self.role.leave(is_final=False)
        await self.role.end()
        self._in_force.change(values, is_own=True)
        self.role = role
        await role.begin()
        await role.announce()
