"""The role of a broker: master or slave.

A role is made from the parts that stay (`Ground`). It creates the features, the table of requests, its side of
replication, the registration and the background jobs, and ends all of them. After a change of the role all of them are
created anew, as after a restart, and features start (on a master) or follow (on a slave).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import fields
from typing import Any

from cometmq.broker.basic_answers import basic_answers
from cometmq.broker.counters.counters import REFUSALS
from cometmq.broker.counters.events import Gauge
from cometmq.broker.features import FEATURES
from cometmq.broker.housekeeping import PERIOD_SECONDS, Housekeeping
from cometmq.broker.loop.flusher import Flusher
from cometmq.broker.parts import Feature, LastingParts, Parts, follow_deletions
from cometmq.broker.refusals import refusing
from cometmq.broker.registration.addresses import unique_ids_of
from cometmq.broker.registration.group_watch import Fence, GroupWatch
from cometmq.broker.registration.registered_topics import RegisteredTopics
from cometmq.broker.registration.registrar import Registrar
from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.replication.copier import LogCopier
from cometmq.broker.replication.copy_mark import CopyMark, KnownTopics
from cometmq.broker.replication.master_port import MasterPort
from cometmq.broker.replication.master_tables import OwnTables, begin_to_follow, take_over
from cometmq.broker.replication.metadata import KnownLog, MasterMetadata, metadata_of
from cometmq.broker.replication.opening import bind_port, log_copier, master_port
from cometmq.broker.replication.requests import (
    OF_GROUPS,
    ChangeRole,
    ReplicaHandler,
    asking_master,
    noting_slaves,
    role_answers,
    slave_answers,
)
from cometmq.broker.requests import RULES, own_machine_gate
from cometmq.broker.send.sends import Sends
from cometmq.broker.tables.positions import GroupPositions
from cometmq.broker.tables.replication_state import MasterState
from cometmq.broker.tables.table_copies import TableCopies
from cometmq.codec.headers.nameserver import RegisterBrokerResponse
from cometmq.model.address import join_address
from cometmq.model.codes import ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError
from cometmq.model.frozen import dataclass
from cometmq.model.names import LMQ_PREFIX
from cometmq.net.loop import loop_chance
from cometmq.net.requests import Answers, RequestTable
from cometmq.net.server import Server
from cometmq.steps.on_loop import LoopWorld, Machines
from cometmq.steps.runner import NEVER, KeptMachine
from cometmq.steps.steps import Steps, confirmed, on_device
from cometmq.store.running_flags import RunningFlag

_log = logging.getLogger(__name__)

# How long a slave that is to be the master waits until the old one is gone.
_GONE_SECONDS = 3.0
# How long a master waits until its successor has the end of the log; it takes no messages meanwhile.
_COPY_SECONDS = 10.0
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Ground:
    """The parts of a broker that stay when its role changes; a role is made from them.

    Attributes:
        parts: The services that stay.
        ip: The IP that the broker registers.
        server: The listening ports; the role sets their table of requests.
        beats: Clock, timers and threads for background jobs that may be a little late.
        mark: The file that marks this broker as a slave.
        change_role: Changes the role, at a request.
    """

    parts: LastingParts
    ip: str
    port: int
    server: Server
    beats: LoopWorld
    flusher: Flusher
    mark: CopyMark
    change_role: ChangeRole


class _Hooks:
    """The callback lists of parts that outlive a role; `take_back` removes the callbacks added after its creation."""

    def __init__(self, parts: LastingParts) -> None:
        store, topics, counters = parts.store, parts.topics, parts.counters
        tables = (topics, parts.groups, parts.offsets)
        self._polls = parts.polls
        self._lists: list[list[Any]] = [
            parts.in_force.on_change,
            store.on_truncated,
            topics.on_change,
            topics.on_delete,
            topics.deleted.on_note,
            parts.groups.on_change,
            parts.groups.on_delete,
            parts.offsets.on_change,
            parts.locks.on_change,
            parts.members.on_heartbeat,
            parts.members.on_left,
            counters.on_work,
            counters.events.gauges,
            *(table.saver.on_dirty for table in tables),
        ]
        self._counts = [len(each) for each in self._lists]

    def take_back(self) -> None:
        """Remove the callbacks added to these lists since this object was made, and all watchers of queues."""
        for callbacks, count in zip(self._lists, self._counts, strict=True):
            del callbacks[count:]
        self._polls.forget_watchers()


class RunningRole:
    """The role of a broker, from `begin` to `end`.

    Attributes:
        replicas: The port for slaves, or the copier of a master's log; of a group that elects its leader, the group.
        features: The features, in the order in which they start.
        sends: Stores the sends of clients, and of code in this process (embedded, proxy).
        parts: The services that the features use.
        ha_port: The port from which slaves copy the log; 0 if none.
    """

    replicas: MasterPort | LogCopier
    features: Sequence[Feature] = ()
    sends: Sends
    parts: Parts
    ha_port = 0
    _metadata: MasterMetadata | None = None
    _is_final = True

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._settings = ground.parts.settings
        self._store = ground.parts.store
        self._hooks = _Hooks(ground.parts)
        self._machines = Machines(ground.parts.world, "broker")
        self._jobs = AsyncExitStack()  # Background jobs and registration; closed first.
        # The features; closed when nobody needs them any more.
        self._started = AsyncExitStack()
        self._serving = AsyncExitStack()  # Replication; closed last.
        self._all_answers: list[Answers] = []
        self._answers: list[Answers] = []

    # --- begin and end

    async def begin(self) -> None:
        """Create and start features and replication, then serve requests; after an error call `leave` and `end`.

        Raises:
            CometError, OSError: A part cannot start; the message says why.
        """
        ground = self.ground
        await self._adapt_tables()
        self._open_replicas()
        self._registrar = self._make_registrar()
        self._registering = Machines(ground.beats, "registrar")
        self._watch = self._make_watch()
        self._house = Machines(ground.beats, "broker")
        for close in (self._close_registration, self._house.close, self._machines.close):
            self._jobs.push_async_callback(close)
        self.parts = parts = self._make_parts()
        self.features = [make(parts) for make in FEATURES]
        follow_deletions(parts, self.features)
        parts.counters.events.gauges.append(self._gauges)
        self._prepare(parts)
        self._all_answers = self._make_answers(parts)
        self._answers = self._role_answers(self._all_answers)
        table = self._make_table(self._answers)
        for feature in self.features:
            await self._start(feature)
            self._started.push_async_callback(feature.close)
        self.replicas.serve()
        ground.server.dispatcher.serve(table)

    def _gauges(self) -> Iterator[Gauge]:
        """Yield metrics of the broker's ports: connections, refusals and, with TLS, when the certificate expires."""
        server = self.ground.server
        yield Gauge("cometmq_connections", (), len(server.peers))
        yield Gauge(REFUSALS, ("connections",), server.refused)
        yield Gauge(REFUSALS, ("requests",), server.dispatcher.refused)
        if server.certificate_expires is not None:
            yield Gauge("cometmq_certificate_expiry_seconds", (), server.certificate_expires)

    async def announce(self) -> None:
        """Try to register at the nameservers, if any, and start housekeeping and other jobs of a broker that serves."""
        await self._settle()
        self._keep_house()
        await self._registering.run(self._registrar.start(self._registering.keep))
        self._watch.begin(self._house.keep)

    async def leave(self, *, is_final: bool) -> None:
        """Stop registration, housekeeping and other jobs, not those of features; unregister only if `is_final`.

        Before a change of the role `is_final` is False: the next role registers in this one's place, so that routes
        keep this broker.
        """
        self._is_final = is_final
        await self._jobs.aclose()

    async def _close_registration(self) -> None:
        await self._registering.close()
        if self._is_final:
            await self._registering.run(self._registrar.leave())

    async def end(self) -> None:
        """Close the features and replication (a group with elections goes on), and remove this role's callbacks."""
        await self._started.aclose()
        await self._serving.aclose()
        self._hooks.take_back()
        if not self._is_final:
            self.ground.parts.lanes.forget_all()
            self._end_replication()
            self._store.flags.clear(RunningFlag.FENCED)

    def _end_replication(self) -> None:
        """From now on, let the store confirm messages without waiting for replicas."""
        self._store.replica_side.end_serving()

    @property
    def tell_nameservers(self) -> Callable[..., Steps[None]]:
        """Registers topics; waits for nameservers that accepted the last registration, at most the given seconds."""
        return self._registrar.register

    def look(self) -> None:
        """Do nothing; `SlaveRole.look` wakes the job that copies the master's tables."""

    # --- what differs between the roles

    async def _adapt_tables(self) -> None:
        """Adapt topics, groups and offsets to this role, as far as it needs (in subclasses)."""
        raise NotImplementedError

    def _open_replicas(self) -> None:
        """Set `replicas`, this broker's end of replication (in subclasses)."""
        raise NotImplementedError

    def _prepare(self, parts: Parts) -> None:
        """Create what only this role has, before any feature starts; by default nothing."""

    def _role_answers(self, answers: Iterable[Answers]) -> list[Answers]:
        """Return the handlers of requests in this role, made from those of a master (in subclasses)."""
        raise NotImplementedError

    async def _start(self, feature: Feature) -> None:
        raise NotImplementedError

    async def _settle(self) -> None:
        """Do what must follow once everything serves; by default nothing."""

    def _make_fence(self) -> Fence | None:
        return None

    # --- parts of every role

    def _make_parts(self) -> Parts:
        lasting: dict[str, Any] = {
            each.name: getattr(self.ground.parts, each.name) for each in fields(LastingParts)
        }
        base = self.ground.parts
        return Parts(
            **lasting,
            positions=GroupPositions(
                base.store, topics=base.topics, offsets=base.offsets, members=base.members,
                is_slave=self._settings.is_slave,
            ),
            replication=self.replicas.state,
            table_copies=TableCopies(self.replicas.state),
            registered=self._registrar.is_known,
            topics_known=self._registrar.known,
            run=self._machines.run,
        )  # fmt: skip

    def _make_answers(self, parts: Parts) -> list[Answers]:
        ground = self.ground
        self.sends = Sends(parts, unique_ids_of(ground.ip, loop_chance(), clock=parts.clock))
        basics = basic_answers(
            parts,
            sends=self.sends,
            announce=self._registrar.register,
            facts=[feature.facts for feature in self.features],
        )
        status = ReplicaHandler(parts, metadata=self._metadata, ha_address=self._ha_address)
        features = (feature.answers for feature in self.features)
        roles = role_answers(ground.change_role)
        return [*basics, status.answers, roles, self._group_answers(), *features]

    def _group_answers(self) -> Answers:
        """Return the handlers of requests to a group that elects its leader; here refusals, as this group does not."""
        refuse = refusing(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "the group of this broker does not elect its leader (enableDLegerCommitLog=false); cometmq cluster promote "
            "makes a slave the master",
        )
        return dict.fromkeys(OF_GROUPS, refuse)

    def _make_table(self, answers: Iterable[Answers]) -> RequestTable:
        guard = self.ground.parts.guard
        return RequestTable(RULES, answers, guard.gate or own_machine_gate(self.replicas.knows))

    def _ha_address(self) -> str:
        """Return the address from which slaves copy the log; empty if none."""
        host = self._settings.ha_ip or self.ground.ip
        return join_address(host, self.ha_port) if self.ha_port else ""

    def _make_registrar(self) -> Registrar:
        base, settings = self.ground.parts, self._settings
        self._registered = RegisteredTopics(base.topics, base.store, base.clock, settings)
        self._registered.look()  # A damaged store accepts no messages from the start.
        registrar = Registrar(
            settings,
            base.address,
            self._registered.table,
            ha_address=self._ha_address(),
            ask=NameserverChannels(base.channels),
            timers=self.ground.beats,
        )
        base.topics.on_change.append(registrar.changed)
        base.in_force.on_change.append(self._look_at_permission)
        return registrar

    def _make_watch(self) -> GroupWatch:
        registrar = self._registrar
        watch = GroupWatch(
            self._settings.nameserver_addresses,
            registrar.identity,
            registrar.ask,
            fence=self._make_fence(),
            has_master=lambda: self.replicas.state().has_master,
            register_at=registrar.register_at,
        )
        registrar.on_registered.append(watch.registered)
        return watch

    def _look_for_withdrawal(self) -> float:
        self._look_at_permission()
        return NEVER

    def _look_at_permission(self) -> None:
        if self._registered.look():
            self.ground.parts.lanes.forget_all()
            self._registrar.changed()

    def _keep_house(self) -> None:
        base = self.ground.parts
        housekeeping = Housekeeping(
            base,
            savers=(base.offsets.saver, base.topics.saver, base.groups.saver),
            save_seconds=self._settings.flush_offsets_interval_ms / 1000,
        )
        keeper = self._house.keep(
            "housekeeping",
            housekeeping.step,
            first_seconds=PERIOD_SECONDS,
            period_seconds=PERIOD_SECONDS,
        )
        housekeeping.woken_by(keeper)
        withdrawal = self._machines.keep(
            "withdrawal", self._look_for_withdrawal, period_seconds=PERIOD_SECONDS
        )
        # Write permission may have to be withdrawn.
        self._store.flags.on_raise = withdrawal.wake


class MasterRole(RunningRole):
    """The role of a master: it may accept messages, and slaves may copy its log."""

    replicas: MasterPort  # type: ignore[mutable-override]  # Set once, by `begin`.

    async def _adapt_tables(self) -> None:
        """Let the store accept messages, and make the tables those of a master.

        They are adapted to the log where needed, unless the store needs a restart.
        """
        base, store, mark = self.ground.parts, self._store, self.ground.mark
        topics, run = base.topics, self._machines.run
        store.replica_side.end_copying()
        base.offsets.lead()
        base.groups.is_copy = False
        counts = store.queue_counts()
        if mark.known is None and topics.was_copy:  # Slaves of older versions had no mark.
            mark.known = KnownTopics(0, DataVersion(0))
        if mark.known is not None:
            topics.promote()
        if store.needs_restart:
            return  # The content of the log is only known after its repair.
        if mark.known is not None:
            await run(take_over(mark.known, topics=topics, groups=base.groups, store=store))
        else:
            topics.say_unknown(counts)
        # After a clean stop, offsets beyond the end were committed by a client: a tool may be ahead of the messages it copies.
        if mark.known is not None or not store.was_clean:
            await run(base.offsets.keep_within(self._end_of))
        topics.is_whole = True

    def _end_of(self, topic: str, queue_id: int) -> int | None:
        """Return the end of a queue; if the store does not have it, None for a light queue, and 0 for others."""
        queue = self._store.queue(topic, queue_id)
        if queue is None:
            return None if topic.startswith(LMQ_PREFIX) else 0
        return queue.max_offset

    def _open_replicas(self) -> None:
        ground = self.ground
        self.replicas = master = master_port(ground.parts)
        self._serving.push_async_callback(master.close)
        self.ha_port = bind_port(master, ground.parts, beside=ground.port)

    def _role_answers(self, answers: Iterable[Answers]) -> list[Answers]:
        """Return the handlers, wrapped so that `Parts.table_copies` notes slaves that send their id when they request tables."""
        return [noting_slaves(part, self.parts.table_copies) for part in answers]

    async def _start(self, feature: Feature) -> None:
        await feature.start()

    async def _settle(self) -> None:
        """If this was a slave, save the tables and remove its mark, unless the store needs a restart; log errors."""
        base, mark = self.ground.parts, self.ground.mark
        if mark.known is None or self._store.needs_restart:
            return
        tables = (base.topics, base.groups, base.offsets)
        savings = [table.saver.saving() for table in tables]
        try:
            for saving in savings:
                if saving is not None:
                    await saving
            await asyncio.get_running_loop().run_in_executor(base.pool, mark.remove)
        except (RequestError, OSError) as error:
            _log.warning(
                "this broker is the master now, but its files do not say so yet: %s; its next start "
                "promotes it again",
                error,
            )

    def _make_fence(self) -> Fence | None:
        return Fence(self._store, self._registrar.identity)

    # --- becoming a slave

    def check_successor(self, successor: int | None) -> None:
        """Check that the slave with this broker id could become the master; None means that no slave shall.

        Raises:
            RequestError: The slave is not connected, not in sync, or has not requested tables with its id.
        """
        if successor is None:
            return
        copies = [each for each in self.replicas.state().copies if each.broker_id == successor]
        why = None
        if not copies:
            why = "is not connected"
        elif not copies[0].is_in_sync:
            why = f"is not in sync: it lacks {copies[0].gap} bytes of the log"
        elif not self.parts.table_copies.is_read_by(str(successor)):
            why = "has not copied topics, groups and offsets yet"
        if why is not None:
            raise _no_successor(successor, why)

    async def hand_over(self, successor: int | None) -> int:
        """Stop accepting messages, wait until the successor, if any, has log and tables, and return the log's end.

        Requests are answered as by a slave with slaveReadEnable from now on. Stored messages get the usual time to be
        confirmed before this returns. After an error the role can only be ended.

        Raises:
            RequestError: The successor does not get everything in time.
        """
        base = self.ground.parts
        answers = slave_answers(self._answers, is_read=True)
        self.ground.server.dispatcher.serve(self._make_table(answers))
        base.offsets.follow()  # What is committed from now on, the new master is told.
        await self._started.aclose()  # Features write what is left.
        self._store.replica_side.begin_copying()
        end = self._store.max_offset
        saving = base.topics.saver.saving()
        if saving is not None:  # Sends to new topics wait for it.
            await asyncio.wait([saving])
        await self._machines.run(confirmed(end))
        if successor is not None:
            await self._wait_for_copy(successor, end)
        return end

    async def _wait_for_copy(self, successor: int, end: int) -> None:
        """Wait until a slave has the log up to an offset, and the tables; raise RequestError if it takes too long."""

        def lacking() -> int:
            copies = self.replicas.state().copies
            return end - max(
                (each.acked for each in copies if each.broker_id == successor), default=0
            )

        if not await _until(lambda: lacking() <= 0, _COPY_SECONDS):
            raise _no_successor(
                successor, f"lacks {lacking()} bytes of the log after {_COPY_SECONDS:.0f} s"
            )
        try:
            await self._machines.run(self.parts.table_copies.copied(str(successor)))
        except TimeoutError:
            raise _no_successor(
                successor, "did not copy topics, groups and offsets in time"
            ) from None


class SlaveRole(RunningRole):
    """The role of a slave: it copies log and tables from a master, and accepts no messages."""

    replicas: LogCopier  # type: ignore[mutable-override]  # Set once, by `begin`.
    _copying: KeptMachine | None = None  # Copies the master's tables.
    _copy: Callable[[], Steps[float]]  # The step of this job; set by `_prepare`.

    async def _adapt_tables(self) -> None:
        """Write the file that marks a slave, unless a mark was read or written before."""
        base, mark = self.ground.parts, self.ground.mark
        known = begin_to_follow(mark, base.topics, self._known_log().end())
        await asyncio.get_running_loop().run_in_executor(base.pool, mark.save, known)

    def _open_replicas(self) -> None:
        ground = self.ground
        self.replicas = log_copier(ground.parts, on_written=ground.flusher.written)
        self._serving.push_async_callback(self.replicas.close)

    def _make_registrar(self) -> Registrar:
        registrar = super()._make_registrar()
        registrar.on_master.append(self._master_told)
        return registrar

    def _master_told(self, master: RegisterBrokerResponse) -> None:
        """Give the copier the master's HA address that a nameserver returned, unless the settings have one."""
        if self._settings.ha_master is None:
            self.replicas.master_told(master.ha_server_addr or "")

    def _prepare(self, parts: Parts) -> None:
        """Create the job that copies the master's tables."""
        own = OwnTables(
            topics=parts.topics, groups=parts.groups, offsets=parts.offsets, store=parts.store,
            mark=self.ground.mark,
        )  # fmt: skip
        self._metadata = metadata_of(
            parts,
            [*own.all(), *(table for each in self.features for table in each.master_tables)],
            master=lambda: self._registrar.master.master_addr,
            ask=asking_master(parts.channels),
            log=self._known_log(),
        )
        self._copy = self._metadata.step

    def _role_answers(self, answers: Iterable[Answers]) -> list[Answers]:
        """Return the handlers, with refusals in place of those for requests that a slave does not accept."""
        return slave_answers(answers, is_read=self._settings.is_slave_read)

    def _known_log(self) -> KnownLog:
        """Return, for the copying of tables, functions that return this log's end and whether a master is connected."""
        return KnownLog(
            end=lambda: self._store.max_offset,
            is_joined=lambda: self.replicas.state().has_master,
        )

    def serve_again(self) -> None:
        """Answer requests as the role demands now, because that may have changed; do nothing before `begin`."""
        if self._all_answers:
            self._answers = self._role_answers(self._all_answers)
            self.ground.server.dispatcher.serve(self._make_table(self._answers))

    async def _start(self, feature: Feature) -> None:
        await feature.follow()

    async def begin(self) -> None:
        """Begin like every role, then start the job that copies the master's tables."""
        await super().begin()
        self._copying = self._machines.keep("metadata", self._copy)

    # --- becoming the master

    async def check_promotable(self, log_end: int | None, *, is_forced: bool) -> None:
        """Check that this broker can become the master; waits some seconds for the old master to disappear.

        Args:
            log_end: Physical offset up to which this broker must have the log, if known.
            is_forced: Whether to ignore most obstacles, so that messages may be lost; not a missing part before `log_end`.

        Raises:
            RequestError: It cannot become the master; the remark says why.
        """
        if await _until(lambda: not self.replicas.state().has_master, _GONE_SECONDS):
            self._watch.look()
            await _until(lambda: self._watch.other_master() is None, _GONE_SECONDS)
        why = self._obstacle(log_end, is_forced=is_forced)
        if why is not None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"this slave cannot become the master: {why}"
            )

    def _obstacle(self, log_end: int | None, *, is_forced: bool) -> str | None:
        """Return a known reason why this broker must not become the master, or None."""
        master, end = self.replicas.state().master, self._store.max_offset
        assert master is not None
        if master.is_active and not (is_forced and self._is_silent(master)):
            return f"its master {master.address} is alive; make that broker a slave first"
        if log_end is not None and end < log_end:
            return f"its log ends at offset {end}, but the master's log at {log_end}"
        if self._store.refusal is not None:
            return f"its store accepts no messages: {self._store.refusal}"
        if is_forced:
            return None
        if (other := self._watch.other_master()) is not None:
            return "the master is {} according to nameserver {}; make that broker a slave first, or force the promotion".format(
                *other
            )
        if master.stopped is not None:
            return f"its log differs from the master's ({master.stopped}); force the promotion to keep this log"
        known = self.ground.mark.known
        if end and (known is None or known.is_nothing):
            return "it has never copied the topics of its master; force the promotion to recreate them from its log"
        return None

    def _is_silent(self, master: MasterState) -> bool:
        """Return whether a connected master hangs: it has sent nothing for 1.5 heartbeat intervals."""
        silent_ms = self.ground.parts.clock.now_ms() - master.read_ms
        return silent_ms > self._settings.ha_heartbeat_ms * 1.5

    async def stop_copying(self) -> int:
        """Stop copying, wait until consumers can see all of the log, and return its end (physical offset).

        After an error the role can only be ended.

        Raises:
            RequestError: The end of the log was not flushed in time.
        """
        await self.leave(is_final=False)
        await self._serving.aclose()
        self.ground.flusher.written()
        await self._machines.run(on_device())
        self._store.dispatch_pending()
        if self._store.replica_side.undispatched:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                "this slave cannot become the master: the end of its log could not be flushed",
            )
        return self._store.max_offset

    def look(self) -> None:
        """Wake the job that copies the master's tables, because one has changed; do nothing before `begin` ends."""
        if self._copying is not None:
            self._copying.wake()


def _no_successor(successor: int, why: str) -> RequestError:
    return RequestError(
        ResponseCode.SLAVE_NOT_AVAILABLE,
        f"the slave with brokerId={successor} cannot become the master now: it {why}",
    )


async def _until(look: Callable[[], bool], seconds: float) -> bool:
    """Wait until `look` returns True; return False if it did not in time."""
    for _ in range(int(seconds / _LOOK_SECONDS)):
        if look():
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return look()


def role_of(ground: Ground) -> RunningRole:
    """Create the role that the settings name; the caller starts it with `begin`."""
    return SlaveRole(ground) if ground.parts.settings.is_slave else MasterRole(ground)
