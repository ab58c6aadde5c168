"""The whole broker: creates and connects store, tables, handlers, ports, threads and timers.

Nothing is decided here; each part is documented in its own module. The broker owns all threads: the loop, the flusher, the
file maker (broker.loop.flusher), and a pool for reads that wait for the disk and for config files.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

from cometmq.access.guard import AccessGuard, access_guard
from cometmq.broker.basic_answers import basic_answers
from cometmq.broker.counters.counters import Counters
from cometmq.broker.features import FEATURES
from cometmq.broker.housekeeping import PERIOD_SECONDS, Housekeeping
from cometmq.broker.inner.puts import InnerPuts
from cometmq.broker.loop.flusher import Flusher
from cometmq.broker.loop.on_loop import LoopWorld, Machines
from cometmq.broker.loop.runner import NEVER
from cometmq.broker.loop.turns import Turns
from cometmq.broker.parts import Feature, Parts, follow_deletions
from cometmq.broker.registration.addresses import joined, unique_ids_of
from cometmq.broker.registration.group_watch import Fence, GroupWatch
from cometmq.broker.registration.open_nameservers import warn_of_open_nameservers
from cometmq.broker.registration.registered_topics import RegisteredTopics
from cometmq.broker.registration.registrar import Registrar
from cometmq.broker.registration.registration import Registration, registrar_of
from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.replication.copier import LogCopier
from cometmq.broker.replication.copy_mark import CopyMark, KnownTopics
from cometmq.broker.replication.master_port import MasterPort
from cometmq.broker.replication.metadata import MasterMetadata, metadata_of
from cometmq.broker.replication.opening import ReplicasOpening
from cometmq.broker.replication.requests.masters import MasterChannel, told_by_master
from cometmq.broker.replication.requests.replicas import ReplicaHandler
from cometmq.broker.replication.requests.slaves import noting_slaves, slave_answers
from cometmq.broker.replication.take_over import begin_to_follow, take_over
from cometmq.broker.requests import own_machine_gate, request_table
from cometmq.broker.settings.broker_settings import (
    FAST_PORT_DISTANCE,
    BrokerRole,
    BrokerSettings,
    changeable,
)
from cometmq.broker.start_check import check_start
from cometmq.broker.tables.cold_readers import ColdReaders
from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.lanes import Lanes
from cometmq.broker.tables.locks import QueueLocks
from cometmq.broker.tables.long_polls import LongPolls
from cometmq.broker.tables.members import Members
from cometmq.broker.tables.offsets import Offsets
from cometmq.broker.tables.positions import GroupPositions
from cometmq.broker.tables.table_copies import TableCopies
from cometmq.broker.tables.topics import Topics
from cometmq.codec.headers.nameserver import RegisterBrokerResponse
from cometmq.codec.host import encode_host
from cometmq.model.clock import Clock
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import NetError, RequestError
from cometmq.model.names import LMQ_PREFIX
from cometmq.net.channels import Channels
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.loop import BeatTimers, loop_chance
from cometmq.net.requests import Answers, RequestTable
from cometmq.net.server import Server
from cometmq.net.tasks import Tasks
from cometmq.store.conf_file import ConfFile
from cometmq.store.config_file import ConfigFile
from cometmq.store.disk import Disk
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk

_log = logging.getLogger(__name__)

POOL_THREADS = (
    4  # For reads that wait for the disk; more threads would only wait for each other.
)


class Broker:
    """A broker: `await start()`, then it serves until `await close()`.

    Attributes:
        port: The port that it listens on, also if the settings say 0.
        fast_port: The second port, for old clients' sends.
        ha_port: The port from which slaves copy the log; 0 if none.
        listen_host: The address of these ports.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        *,
        disk: Disk | None = None,
        conf: ConfFile | None = None,
    ) -> None:
        """`conf` is where changed settings are saved."""
        self._in_force = changeable(settings, conf)
        self.settings = self._in_force.current
        self.port = 0
        self.fast_port = 0
        self.ha_port = 0
        self.listen_host = settings.listen_host
        self._clock = clock
        self._disk = disk or RealDisk()
        self._look_at_tables: Callable[[], None] = lambda: None  # Replaced on a slave.
        self._closing = AsyncExitStack()  # Closes what is open, in reverse order.

    @property
    def address(self) -> str:
        """The address that the broker registers, "ip:port"."""
        return joined(self._ip, self.port)

    # --- start and close

    async def start(self) -> None:
        """Open the store, listen, register; if that fails, close everything again.

        Raises:
            SettingsError: A setting is invalid.
            StoreError, OSError: The store cannot be opened; the message says why.
            CodecError: A configuration file cannot be decoded.
            NetError: The port is in use.
        """
        try:
            await self._open()
            await self._forget_the_slave()
            self._keep_house()
            await self._registration.start()
            self._look_for_open_nameservers()
            self._make_watch().begin(self._house.keep)
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        """Open everything up to serving; each part registers how it is closed."""
        settings, closing = self.settings, self._closing
        self._ip, self.listen_host = check_start(settings)
        self._open_store()
        self._world = LoopWorld(self._pool, self._store)
        self._machines = Machines(self._world, "broker")
        self._beats = LoopWorld(self._pool, self._store, timers=BeatTimers(self._clock))
        self._house = Machines(self._beats, "broker")
        self._requests = Machines(self._world, "requests")
        self._guard = self._make_guard()
        self._load_tables()
        self._server = self._bind()
        self._channels = self._make_channels()
        self._replicas = self._open_replicas()
        self._registrar = self._make_registrar()
        self._registration = Registration(self._registrar, self._beats)
        parts = self._make_parts()
        self._features = self._make_features(parts)
        self._metadata = self._make_metadata(parts) if settings.is_slave else None
        self._server.dispatcher.serve(self._make_table(parts))
        self._flusher.start()
        closing.push_async_callback(self._flusher.close)
        for feature in self._features:
            await (feature.follow() if settings.is_slave else feature.start())
            closing.push_async_callback(feature.close)
        closing.push_async_callback(self._requests.close)
        # Connections are closed before the features that answer them.
        for close in (
            self._server.close,
            self._channels.close,
            self._registration.close,
            self._house.close,
            self._machines.close,
        ):
            closing.push_async_callback(close)
        self._replicas.serve()
        if self._metadata is not None:
            self._look_at_tables = self._machines.keep("metadata", self._metadata.step).wake
        await self._server.serve()

    def _make_features(self, parts: Parts) -> list[Feature]:
        features = [make(parts) for make in FEATURES]
        follow_deletions(parts, features)
        return features

    def _make_table(self, parts: Parts) -> RequestTable:
        """Return the table of requests that are answered in this role."""
        settings = self.settings
        features = (feature.answers for feature in self._features)
        answers: list[Answers] = [
            *self._make_basics(parts),
            self._make_status(),
            *features,
        ]
        if settings.is_slave:
            answers = slave_answers(answers, is_read=settings.is_slave_read)
        else:
            answers = [noting_slaves(part, parts.table_copies) for part in answers]
        gate = self._guard.gate or own_machine_gate(self._replicas.knows)
        return request_table(answers, gate)

    def _make_basics(self, parts: Parts) -> list[Answers]:
        return basic_answers(
            parts,
            lanes=self._lanes,
            on_written=self._flusher.written,
            machines=self._requests,
            announce=self._registration.register,
            unique_ids=unique_ids_of(self._ip, loop_chance(), clock=self._clock),
            facts=[feature.facts for feature in self._features],
        )

    def _make_status(self) -> Answers:
        return ReplicaHandler(
            self._replicas.state, metadata=self._metadata, store=self._store,
            address=self.address, ha_address=self._ha_address,
        ).answers  # fmt: skip

    def _open_store(self) -> None:
        """Open the store, and start the threads that read from the disk."""
        settings, closing = self.settings, self._closing
        self._store = MessageStore.open(
            settings.store_directory,
            settings.store_settings(),
            clock=self._clock,
            disk=self._disk,
        )
        closing.callback(self._store.close)
        self._pool = ThreadPoolExecutor(POOL_THREADS, "broker-pool")
        closing.callback(self._pool.shutdown)

    def _make_guard(self) -> AccessGuard:
        """Create access control; from now on, account files are watched."""
        settings = self.settings
        folder = f"{settings.store_directory}/config"
        guard = access_guard(
            settings, self._clock, folder=folder, cluster=settings.cluster_name
        )
        if guard.accounts is not None:
            tasks = Tasks("accounts")
            tasks.spawn(guard.accounts.follow(), "files")
            self._closing.push_async_callback(tasks.close)
        return guard

    def _look_for_open_nameservers(self) -> None:
        """Warn of nameservers without access control, if this broker has it."""
        if self.settings.is_guarded:
            channels = Channels(self._clock, tls=self.settings.client_tls())
            self._closing.push_async_callback(channels.close)
            tasks = Tasks("nameservers")
            self._closing.push_async_callback(tasks.close)
            calls = NameserverChannels(channels)
            work = warn_of_open_nameservers(self.settings.nameserver_addresses, calls)
            tasks.spawn(work, "unsigned")

    def _make_channels(self) -> Channels:
        credentials, tls = self.settings.credentials(), self.settings.client_tls()
        return Channels(
            self._clock,
            on_request=told_by_master(self._look_now),
            credentials=credentials,
            tls=tls,
        )

    def _look_now(self) -> None:
        """Wake the job that copies the master's tables, because one has changed."""
        self._look_at_tables()

    def _config_file(self, name: str) -> ConfigFile:
        return ConfigFile(f"{self.settings.store_directory}/config/{name}", self._disk)

    def _load_tables(self) -> None:
        settings, clock, pool = self.settings, self._clock, self._pool
        self._topics = Topics(
            self._config_file("topics.json"), settings, clock=clock, pool=pool
        )
        self._groups = Groups(
            self._config_file("subscriptionGroup.json"),
            settings,
            clock=clock,
            pool=pool,
        )
        names = ("consumerOffset.json", "lmqConsumerOffset.json")
        file, other = map(self._config_file, names[::-1] if settings.is_light_read else names)
        self._offsets = Offsets(
            file, clock=clock, pool=pool, other_file=other, is_light=settings.is_light_read
        )
        self._mark = CopyMark(self._config_file("slaveMark.json"), self._disk)
        self._locks = QueueLocks(self._config_file("queueLocks.json"), clock=clock, pool=pool)
        for table in (self._topics, self._groups, self._offsets, self._locks):
            table.load()
            self._closing.push_async_callback(table.close)
        self._account_for_log()
        self._counters = Counters(clock, self._topics.is_system)
        self._members = Members(
            clock, timeout_ms=settings.client_timeout_ms, is_notified=self._is_notified
        )
        self._turns = Turns(clock)
        self._polls = LongPolls(clock)
        self._store.on_arrival = self._polls.arrived
        self._flusher = Flusher(self._store, self._clock)

    def _account_for_log(self) -> None:
        """Adapt the tables to the log, which may have more or fewer topics and messages.

        Raises:
            OSError: The disk failed.
        """
        store, topics, mark = self._store, self._topics, self._mark
        mark.load()
        counts = store.queue_counts()
        if not topics.is_whole:
            # A .bak lacks the newest topics; a topic that is missing in an intact file was deleted.
            topics.make_again(counts, store.batch_topics())
        if self.settings.is_slave:
            begin_to_follow(mark, topics, store)
            return
        if mark.known is None and topics.was_copy:  # Slaves of older versions had no mark.
            mark.known = KnownTopics(0, DataVersion(0))
        if mark.known is not None:
            topics.promote()
        if store.needs_restart:
            return  # The content of the log is only known after its repair.
        if mark.known is not None:
            take_over(mark.known, topics=topics, groups=self._groups, store=store)
        else:
            topics.say_unknown(counts)
        # After a clean stop, an offset beyond the end was committed so: a tool may be ahead of the messages that it copies.
        if mark.known is not None or not store.was_clean:
            self._offsets.keep_within(self._end_of)

    async def _forget_the_slave(self) -> None:
        """Remove the mark of a slave once its consequences are on disk; otherwise the next start finds it again."""
        if self.settings.is_slave or self._mark.known is None or self._store.needs_restart:
            return
        tables = (self._topics, self._groups, self._offsets)
        savings = [table.saver.saving() for table in tables]
        try:
            for saving in savings:
                if saving is not None:
                    await saving
            await asyncio.get_running_loop().run_in_executor(self._pool, self._mark.remove)
        except (RequestError, OSError) as error:
            _log.warning(
                "this broker is the master now, and its files do not say so: %s", error
            )

    def _end_of(self, topic: str, queue_id: int) -> int | None:
        """Return the end of a queue; None for a light queue that is not served here."""
        queue = self._store.queue(topic, queue_id)
        if queue is None:
            return None if topic.startswith(LMQ_PREFIX) else 0
        return queue.max_offset

    def _is_notified(self, name: str) -> bool:
        group = self._groups.peek(name)
        return self.settings.notify_changes and (group is None or group.notify_changes)

    def _bind(self) -> Server:
        """Bind both ports; this precedes the handlers, because message ids contain the first port."""
        settings, host = self.settings, self.listen_host
        server = Server(
            Dispatcher(on_answered=self._counters.answered),
            self._clock,
            connections_max=settings.connections_max,
            connections_per_address_max=settings.connections_per_address_max,
            is_own_machine_trusted=settings.is_own_machine_trusted,
            idle_seconds_max=settings.idle_seconds_max,
            tls=settings.server_tls(),
            strangers=self._guard.gate,
        )
        self._closing.push_async_callback(server.close)
        self.port = server.bind(host, settings.listen_port)
        fast_port = max(settings.listen_port - FAST_PORT_DISTANCE, 0)
        try:
            self.fast_port = server.bind(host, fast_port)
        except NetError as error:
            # Only old clients use it, and without it they find the first port.
            _log.warning("the second port is not served: %s", error)
        self._store.store_host = encode_host(self.address)
        return server

    def _make_metadata(self, parts: Parts) -> MasterMetadata:
        return metadata_of(
            parts,
            [table for feature in self._features for table in feature.master_tables],
            master=lambda: self._registrar.master.master_addr,
            ask=MasterChannel(self._channels),
            replication=self._replicas.state,
            mark=self._mark,
        )

    def _open_replicas(self) -> MasterPort | LogCopier:
        opening = ReplicasOpening(
            self._in_force,
            self._store,
            NameserverChannels(self._channels),
            clock=self._clock,
            pool=self._pool,
        )
        if self.settings.broker_role is BrokerRole.SLAVE:
            copier = opening.copier(self.listen_host, on_written=self._flusher.written)
            self._closing.push_async_callback(copier.close)
            return copier
        master = opening.master()
        self.ha_port = opening.bind(master, self.listen_host, beside=self.port)
        self._closing.push_async_callback(master.close)
        return master

    def _master_told(self, master: RegisterBrokerResponse) -> None:
        """Tell the copier the master's address that a nameserver returned."""
        if isinstance(self._replicas, LogCopier) and self.settings.ha_master is None:
            self._replicas.master_told(master.ha_server_addr or "")

    def _ha_address(self) -> str:
        """Return the address from which slaves copy the log; empty if none."""
        return joined(self.settings.ha_ip or self._ip, self.ha_port) if self.ha_port else ""

    def _make_lanes(self) -> Lanes:
        lanes = Lanes(
            self._store,
            region=self.settings.region_id,
            is_trace_on=self.settings.is_trace_on,
            counters=self._counters,
        )
        self._topics.on_change.append(lanes.forget)
        self._store.on_stuck = lanes.forget
        return lanes

    def _make_parts(self) -> Parts:
        self._lanes = self._make_lanes()
        return Parts(
            settings=self.settings,
            in_force=self._in_force,
            address=self.address,
            store=self._store,
            clock=self._clock,
            disk=self._disk,
            pool=self._pool,
            chance=loop_chance(),
            world=self._world,
            topics=self._topics,
            groups=self._groups,
            offsets=self._offsets,
            members=self._members,
            locks=self._locks,
            polls=self._polls,
            counters=self._counters,
            cold=ColdReaders(self.settings, self._clock),
            channels=self._channels,
            turns=self._turns,
            inner=InnerPuts(
                store=self._store,
                topics=self._topics,
                lanes=self._lanes,
                counters=self._counters,
                on_written=self._flusher.written,
            ),
            config_file=self._config_file,
            guard=self._guard,
            positions=self._make_positions(),
            replication=self._replicas.state,
            table_copies=TableCopies(self._replicas.state),
            registered=self._registrar.is_known,
        )

    def _make_positions(self) -> GroupPositions:
        return GroupPositions(
            self._store,
            topics=self._topics,
            offsets=self._offsets,
            members=self._members,
            is_slave=self.settings.is_slave,
        )

    def _make_registrar(self) -> Registrar:
        settings = self.settings
        self._registered = RegisteredTopics(self._topics, self._store, self._clock, settings)
        self._registered.look()  # A damaged store accepts no messages from the start.
        registrar = registrar_of(
            settings,
            self.address,
            self._registered.table,
            ha_address=self._ha_address(),
            ask=NameserverChannels(self._channels),
            timers=self._beats,
        )
        self._topics.on_change.append(registrar.changed)
        registrar.on_master.append(self._master_told)
        self._in_force.on_change.append(self._look_at_permission)
        return registrar

    def _make_watch(self) -> GroupWatch:
        registrar, is_slave = self._registrar, self.settings.is_slave
        watch = GroupWatch(
            self.settings.nameserver_addresses,
            registrar.identity,
            registrar.ask,
            fence=None if is_slave else Fence(self._store, registrar.identity),
            has_master=lambda: self._replicas.state().has_master,
            register_at=registrar.register_at,
        )
        registrar.on_registered.append(watch.registered)
        return watch

    def _look_for_withdrawal(self) -> float:
        self._look_at_permission()
        return NEVER

    def _look_at_permission(self) -> None:
        if self._registered.look():
            self._lanes.forget_all()
            self._registrar.changed()

    def _keep_house(self) -> None:
        housekeeping = Housekeeping(
            self._clock,
            polls=self._polls,
            counters=self._counters,
            members=self._members,
            locks=self._locks,
            savers=(self._offsets.saver, self._topics.saver, self._groups.saver),
            save_seconds=self.settings.flush_offsets_interval_ms / 1000,
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
        self._store.flags.on_raise = (
            withdrawal.wake
        )  # Write permission may have to be withdrawn.

    async def close(self) -> None:
        """Unregister, close connections, save everything, close the store.

        Closes everything at any time: before a start, after a failed one, or a second time.
        """
        await self._closing.aclose()
