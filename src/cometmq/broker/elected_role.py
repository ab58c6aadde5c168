"""The roles of a broker in a group that elects its leader: the leader is the master, the others are its slaves.

The role follows the election (`replication.group`). When a member stops leading, its store refuses messages at once; the
rest of the change follows. A new leader becomes the master as soon as it has committed a record of its term,
dispatched everything before it, and applied the changes of tables in it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.registration.group_watch import Fence
from cometmq.broker.registration.registrar import Registrar
from cometmq.broker.replication.copy_mark import NEVER_COPIED
from cometmq.broker.replication.group.elected_group import ElectedGroup
from cometmq.broker.replication.group.logged_tables import logged_tables
from cometmq.broker.replication.group.table_reader import TableLogReader
from cometmq.broker.replication.group.table_writer import PERIOD_SECONDS, TableLogWriter
from cometmq.broker.replication.master_tables import take_over
from cometmq.broker.replication.metadata import PERIOD_SECONDS as TELL_SECONDS
from cometmq.broker.replication.metadata import AskMaster, tell_offsets
from cometmq.broker.replication.requests import asking_master, group_answers, slave_answers
from cometmq.broker.role import Ground, MasterRole, RunningRole, SlaveRole
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.broker.tables.logged_table import LoggedTable
from cometmq.broker.tables.table_copies import TableCopies
from cometmq.codec.bodies.table_changes import TABLES_TOPIC
from cometmq.codec.headers.nameserver import RegisterBrokerResponse
from cometmq.codec.headers.replication import RoleChange, RoleChanged
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CometError, RequestError, StoreBusy
from cometmq.model.route import MASTER_ID
from cometmq.net.requests import Answers
from cometmq.net.tasks import Tasks
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import NEVER, KeptMachine
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_BUSY_SECONDS = 0.1


def logged_by(features: Iterable[Feature]) -> list[LoggedTable]:
    """Return the tables of features that a group keeps in its log."""
    return [table for feature in features for table in feature.logged_tables]


class ElectedMaster(MasterRole):
    """The role of the leader of a group with elections, for one term."""

    replicas: ElectedGroup  # type: ignore[assignment]  # Set once, by `begin`.

    def __init__(
        self, ground: Ground, group: ElectedGroup, reader: TableLogReader, term: int
    ) -> None:
        super().__init__(ground)
        self.term = term
        self._group = group
        self._reader = reader
        self._writer = TableLogWriter(
            ground.parts,
            reader.lasting,
            snapshot=reader.snapshot,
            run=self._machines.run,
            leads=partial(group.running.serves_in, term),
        )

    async def begin(self) -> None:
        """Begin like every master, then start the job that writes the tables to the log."""
        await super().begin()
        self._machines.keep("tables", self._writer.step, period_seconds=PERIOD_SECONDS)

    async def leave(self, *, is_final: bool) -> None:
        """Refuse changes, write the tables a last time, then leave like every role.

        Offsets that are committed from then on are kept for the next leader.
        """
        if self._answers:
            answers = slave_answers(self._answers, is_read=True, is_elected=True)
            self.ground.server.dispatcher.serve(self._make_table(answers))
        await self._machines.run(self._writer.finish())
        self._writer.stop()
        self.ground.parts.offsets.follow()
        await super().leave(is_final=is_final)

    async def end(self) -> None:
        """End like every role; later changes of tables are not a leader's."""
        await super().end()
        self._writer.end()

    async def _adapt_tables(self) -> None:
        """Accept messages, and write changes of the tables to the log from now on.

        Without a snapshot in the log, the tables may lack topics that have messages.
        """
        base, run = self.ground.parts, self._machines.run
        topics, groups = base.topics, base.groups
        base.locks.lead()
        self._group.running.accept_puts(self.term)
        groups.is_copy = False
        topics.promote(self.term)
        if self._reader.snapshot is None:
            await run(take_over(NEVER_COPIED, topics=topics, groups=groups, store=self._store))
        topics.is_whole = True
        self._writer.begin()
        await run(base.offsets.keep_within(self._end_of))

    def _make_parts(self) -> Parts:
        """Return the parts of a master; a deletion does not wait for copies, because it is in the log of a majority."""
        return replace(super()._make_parts(), table_copies=TableCopies())

    def _prepare(self, parts: Parts) -> None:
        super()._prepare(parts)
        tables = logged_by(self.features)
        self._reader.apply_to(tables)
        self._writer.join(tables)

    def _open_replicas(self) -> None:
        self.replicas = self._group

    def _end_replication(self) -> None:
        """Do nothing: replication in the group goes on."""

    def _group_answers(self) -> Answers:
        return group_answers(self._group.orders)

    def _make_fence(self) -> Fence | None:
        """Return None: the lease decides who may accept messages, not a nameserver."""
        return None


class ElectedSlave(SlaveRole):
    """The role of a member of a group with elections that does not lead."""

    replicas: ElectedGroup  # type: ignore[assignment]  # Set once, by `begin`.

    _applying: KeptMachine | None = None  # Applies the changes of tables in the log.
    _told_offsets = False  # Whether it answers which offsets are committed.

    def __init__(self, ground: Ground, group: ElectedGroup, reader: TableLogReader) -> None:
        super().__init__(ground)
        self._group = group
        self._reader = reader

    async def begin(self) -> None:
        """Begin like every slave, then start the job that applies the changes of tables in the log."""
        await super().begin()
        self._applying = self._machines.keep("tables", self._apply)

    async def _adapt_tables(self) -> None:
        """Only note that this broker is not promoted: its tables follow the log."""
        self.ground.parts.topics.is_promoted = False

    def _prepare(self, parts: Parts) -> None:
        """Let the tables follow the log, not the master; the copy job only sends the leader offsets committed here."""
        parts.offsets.follow()
        parts.groups.is_copy = True
        self._copy = partial(self._tell_offsets, asking_master(parts.channels))
        self._reader.apply_to(logged_by(self.features))
        queue = self._store.queue_to_watch(TABLES_TOPIC, 0)
        parts.polls.watch(queue, lambda _queue: self._look_at_tables())

    def _tell_offsets(self, ask: AskMaster) -> Steps[float]:
        leader, offsets = self._group.leader_address, self.ground.parts.offsets
        if leader is not None and offsets.has_grown:
            try:
                yield from tell_offsets(offsets, leader, ask)
            except (CometError, OSError) as error:
                _log.info(
                    "offsets that were committed here are not sent to the leader: %s", error
                )
        return TELL_SECONDS

    def _look_at_tables(self) -> None:
        if self._applying is not None:
            self._applying.wake()

    def _apply(self) -> Steps[float]:
        """Apply changes of tables, once everything in the queues is known to be committed."""
        if self._group.running.is_readable:
            try:
                yield from self._reader.catch_up()
            except StoreBusy:
                return _BUSY_SECONDS
            if self._reader.has_read and not self._told_offsets:
                self.serve_again()
        return NEVER

    def _open_replicas(self) -> None:
        self.replicas = self._group

    def _end_replication(self) -> None:
        """Do nothing: replication in the group goes on."""

    def _make_registrar(self) -> Registrar:
        registrar = super()._make_registrar()
        registrar.is_wanted = lambda: self._group.is_listed
        return registrar

    def _master_told(self, master: RegisterBrokerResponse) -> None:
        """Ignore the master that a nameserver names: the group knows its leader."""

    def _role_answers(self, answers: Iterable[Answers]) -> list[Answers]:
        self._told_offsets = self._reader.has_read
        return slave_answers(
            answers,
            is_read=self._group.running.is_readable,
            is_elected=True,
            knows_offsets=self._told_offsets,
        )

    def _group_answers(self) -> Answers:
        return group_answers(self._group.orders)

    def look_again(self) -> None:
        """Serve or refuse reads, as is possible now, and wake the jobs that follow the leader's tables."""
        self.serve_again()
        self.look()
        self._look_at_tables()
        if self._registrar.is_known() != self._group.is_listed:
            self._registrar.changed()


class ElectedRoles:
    """The current role of a member (`role`), which follows the election."""

    def __init__(self, ground: Ground, group: ElectedGroup) -> None:
        self._reader = TableLogReader(ground.parts.store, logged_tables(ground.parts))
        self._machines = Machines(ground.parts.world, "role")
        self.role: RunningRole = ElectedSlave(ground, group, self._reader)
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
        self._is_changed.set()  # The members may have changed since dLegerPeers was written.
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
            "the role of this broker is unchanged: its group elects the leader (enableDLegerCommitLog); cometmq cluster "
            "transfer lets another member lead",
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
        broker_id = self._in_force.current.broker_id
        term = running.member.term
        if running.is_serving:
            if not isinstance(role, ElectedMaster) or role.term != term:
                await self._lead(term)
        elif isinstance(role, ElectedSlave) and broker_id == self._group.broker_id:
            role.look_again()
        else:
            await self._follow_leader()
            _log.warning("this broker is a slave now, with brokerId=%d", self._group.broker_id)

    async def _lead(self, term: int) -> None:
        try:
            await self._leave()
            # While what the tables of the old role notify of deletions is still there.
            await self._machines.run(self._reader.catch_up())
            await self._become(
                partial(ElectedMaster, self._ground, self._group, self._reader, term),
                {"brokerRole": BrokerRole.SYNC_MASTER.name, "brokerId": str(MASTER_ID)},
            )
        except Exception:
            await self._follow_leader()
            raise
        _log.warning("this broker is the master now, elected in term %d", term)

    async def _follow_leader(self) -> None:
        await self._leave()
        await self._become(
            partial(ElectedSlave, self._ground, self._group, self._reader),
            {"brokerRole": BrokerRole.SLAVE.name, "brokerId": str(self._group.broker_id)},
        )

    async def _leave(self) -> None:
        """Let the current role leave; if it was a master's, the tables may have changes that are not in the log."""
        await self.role.leave(is_final=False)
        if isinstance(self.role, ElectedMaster):
            self._reader.rewind()

    async def _become(self, make: Callable[[], RunningRole], values: Mapping[str, str]) -> None:
        """End the role that has left, which removes its callbacks; then make and begin another one with these settings."""
        await self.role.end()
        self._in_force.change(values, is_own=True)
        self.role = role = make()
        await role.begin()
        await role.announce()
