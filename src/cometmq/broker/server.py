"""The whole broker: creates and connects store, tables, ports, threads and timers, and gives it its role.

Besides the event loop, it has threads, such as the flusher, the file maker (broker.loop.flusher), and a pool for work
that waits for the disk, such as reads and saving config files. What depends on the role is in `broker.role`.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from cometmq.access.guard import AccessGuard, access_guard
from cometmq.broker.counters.counters import Counters
from cometmq.broker.elected_role import ElectedRoles
from cometmq.broker.inner.puts import InnerPuts
from cometmq.broker.loop.flusher import Flusher
from cometmq.broker.loop.turns import Turns
from cometmq.broker.parts import LastingParts
from cometmq.broker.registration.open_nameservers import warn_of_open_nameservers
from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.replication.copy_mark import CopyMark
from cometmq.broker.replication.group.elected_group import ElectedGroup, check_alone
from cometmq.broker.replication.requests import told_by_master
from cometmq.broker.role import Ground, RunningRole
from cometmq.broker.role_change import RoleChanges
from cometmq.broker.settings.broker_settings import (
    FAST_PORT_DISTANCE,
    LOOPBACK,
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
from cometmq.broker.tables.topics import Topics
from cometmq.codec.headers.replication import RoleChange, RoleChanged
from cometmq.codec.host import encode_host
from cometmq.model.address import join_address
from cometmq.model.clock import Clock
from cometmq.model.errors import NetError
from cometmq.net.channels import Channels
from cometmq.net.connections import Bounds
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.loop import BeatTimers, loop_chance
from cometmq.net.server import Server
from cometmq.net.tasks import Tasks
from cometmq.steps.on_loop import LoopWorld
from cometmq.steps.steps import Steps
from cometmq.store.conf_file import ConfFile
from cometmq.store.config_file import ConfigFile
from cometmq.store.disk import Disk
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk

_log = logging.getLogger(__name__)

# For reads that wait for the disk; more threads would only wait for each other.
POOL_THREADS = 4


class Broker:
    """A broker: `await start()`, then it serves until `await close()`.

    Attributes:
        port: The port that it listens on, also if the settings say 0.
        fast_port: The second port, for old clients; 0 if it could not be bound.
        listen_host: The address of these ports; known after `start`.
        is_own_machine_trusted: Whether peers on this machine may administrate without access control.
        in_force: The current settings, with callbacks for their changes (`on_change`).
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        *,
        disk: Disk | None = None,
        conf: ConfFile | None = None,
    ) -> None:
        """`conf` is the conf file next to which changed settings are saved; None: they last until the next start."""
        if settings.is_elected:  # Every member starts as a slave.
            number = list(settings.peer_addresses()).index(settings.self_id) + 1
            settings = replace(settings, broker_role=BrokerRole.SLAVE, broker_id=number)
        self.in_force = changeable(settings, conf)
        self.settings = self.in_force.current
        self.port = 0
        self.fast_port = 0
        self.listen_host = LOOPBACK
        self.is_own_machine_trusted = settings.is_own_machine_trusted
        self._clock = clock
        self._disk = disk or RealDisk()
        self._conf = conf
        self._changes: RoleChanges | ElectedRoles | None = None
        self._closing = AsyncExitStack()  # Closes what is open, in reverse order.

    @property
    def address(self) -> str:
        """The address that the broker registers, "ip:port"."""
        return join_address(self._ip, self.port)

    @property
    def role(self) -> RunningRole:
        """The current role of the broker; must not be read before `start`."""
        assert self._changes is not None
        return self._changes.role

    @property
    def ha_port(self) -> int:
        """The port from which slaves copy the log; 0 if none."""
        return self.role.ha_port

    # --- start and close

    async def start(self) -> None:
        """Open the store, listen, and try to register at the nameservers; if another step fails, close everything again.

        Raises:
            SettingsError: A setting, or a file that it names, cannot be used.
            StoreError, OSError: The store or another file cannot be opened; the message says why.
            CodecError: A configuration file and its .bak cannot be decoded, and its content cannot be derived.
            NetError: A port cannot be bound.
        """
        try:
            _log.info(
                "broker %s of cluster %s, %s with id %d; nameservers: %s",
                self.settings.broker_name, self.settings.cluster_name, self.settings.broker_role.name,
                self.settings.broker_id, self.settings.nameservers or "none",
            )  # fmt: skip
            await self._open()
            await self.role.begin()
            self._server.serve()
            self._log_addresses()
            await self.role.announce()
            if isinstance(self._changes, ElectedRoles):
                self._changes.start()
            self._look_for_open_nameservers()
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        """Open everything that does not depend on the role, and register how it is closed."""
        settings, closing = self.settings, self._closing
        addresses = check_start(settings)
        self._ip, self.listen_host = addresses.told_ip, addresses.listen_host
        self.is_own_machine_trusted &= addresses.is_own_machine_certain
        self._open_store()
        self._world = LoopWorld(self._pool, self._store)
        self._beats = LoopWorld(self._pool, self._store, timers=BeatTimers(self._clock))
        self._guard = self._make_guard()
        self._load_tables()
        self._server = self._bind()
        self._channels = self._make_channels()
        self._flusher.start()
        closing.push_async_callback(self._flusher.close)
        self._changes = self._make_changes()
        # Connections are closed before the features that answer them.
        for close in (
            self._end_role,
            self._server.close,
            self._channels.close,
            self._changes.close,
        ):
            closing.push_async_callback(close)

    def _make_changes(self) -> RoleChanges | ElectedRoles:
        settings, ground = self.settings, self._make_ground()
        if not settings.is_elected:
            check_alone(settings, self._disk)
            return RoleChanges(ground, self._conf)
        group = ElectedGroup(ground.parts, on_written=self._flusher.written)
        self._closing.push_async_callback(group.shut)
        return ElectedRoles(ground, group)

    async def _end_role(self) -> None:
        await self.role.end()

    def _make_ground(self) -> Ground:
        return Ground(
            self._make_parts(),
            ip=self._ip,
            port=self.port,
            server=self._server,
            beats=self._beats,
            flusher=self._flusher,
            mark=self._mark,
            change_role=self._change_role,
        )

    def _change_role(self, wish: RoleChange) -> Steps[RoleChanged]:
        assert self._changes is not None
        return self._changes.change(wish)

    def _open_store(self) -> None:
        """Open the store, and create the pool of threads that wait for the disk."""
        settings, closing = self.settings, self._closing
        began = self._clock.monotonic()
        self._store = MessageStore.open(
            settings.store_directory,
            settings.store_settings(),
            clock=self._clock,
            disk=self._disk,
        )
        self._log_recovery(self._clock.monotonic() - began)
        closing.callback(self._store.close)
        self._pool = ThreadPoolExecutor(POOL_THREADS, "broker-pool")
        closing.callback(self._pool.shutdown)

    def _log_recovery(self, seconds: float) -> None:
        """Log the findings of opening the store, and its duration in seconds."""
        store, found = self._store, self._store.recovery
        stop = "the last stop was clean"
        if not store.was_clean:
            stop = "the last stop was not clean (a kill, a crash or a power cut)"
        elif not store.max_offset:
            stop = "it has no messages"
        cut = "nothing was cut"
        if found.is_cut:
            cut = f"invalid bytes at its end were cut, of which {self.settings.store_directory}/cut has a copy"
        _log.info(
            "store %s: %s; its log has the physical offsets %d to %d, checked from %d on in %.0f ms; %s",
            self.settings.store_directory, stop, store.min_offset, found.end, found.start, seconds * 1000,
            found.damage or cut,
        )  # fmt: skip

    def _log_addresses(self) -> None:
        """Log the addresses on which the broker listens, and the one that clients get."""
        served = [join_address(self.listen_host, self.port)]
        if self.fast_port:
            served.append(f"{join_address(self.listen_host, self.fast_port)} (for old clients)")
        if self.ha_port:
            served.append(f"{join_address(self.listen_host, self.ha_port)} (for slaves)")
        _log.info(
            "listening on %s; clients get the address %s; access control is %s",
            ", ".join(served), self.address, "on" if self.settings.is_guarded else "off",
        )  # fmt: skip

    def _make_guard(self) -> AccessGuard:
        """Create access control, if the settings want it; files of accounts (ACL 1.0) are watched from now on."""
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
        """In the background, warn of nameservers without access control, if this broker has it."""
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
        """If this broker is a slave, wake the job that copies the master's tables, because one has changed."""
        if self._changes is not None:
            self._changes.role.look()

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
            self._closing.push_async_callback(table.saver.close)
        self._closing.push_async_callback(self._topics.deleted.saver.close)
        self._mark.load()
        if not self._topics.is_whole:
            # A .bak may lack the newest topics; a topic that is missing in an intact file was deleted.
            store = self._store
            self._topics.make_again(store.queue_counts(), store.batch_topics())
        self._counters = Counters(clock, self._topics.is_system)
        self._members = Members(
            clock, timeout_ms=settings.client_timeout_ms, is_notified=self._is_notified
        )
        self._turns = Turns(clock)
        self._polls = LongPolls(clock)
        self._store.on_arrival = self._polls.arrived
        self._flusher = Flusher(self._store, self._clock)
        self._count_events()

    def _count_events(self) -> None:
        """From now on count the flushes with their durations, and the changes of consumer groups, for metrics."""
        events = self._counters.events
        flushes = events.latencies("cometmq_flush_duration_seconds")
        assert flushes is not None, "there is room for the first event"
        self._flusher.on_flushed = lambda seconds: flushes.add(int(seconds * 1_000_000))
        self._members.on_changed = partial(events.add, "cometmq_consumer_group_changes_total")

    def _is_notified(self, name: str) -> bool:
        group = self._groups.peek(name)
        return self.settings.notify_changes and (group is None or group.notify_changes)

    def _bind(self) -> Server:
        """Bind the broker's port and, if it is free, the second one for old clients; return the server.

        The ports are bound before handlers are made, because message ids contain the first port.
        """
        settings, host = self.settings, self.listen_host
        server = Server(
            Dispatcher(world=self._world, answer_times=self._counters.answer_times),
            self._clock,
            bounds=Bounds(
                count_max=settings.connections_max,
                of_network_max=settings.connections_per_address_max,
                idle_seconds_max=settings.idle_seconds_max,
            ),
            is_own_machine_trusted=self.is_own_machine_trusted,
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
            _log.warning("the second port, for old clients, is not served: %s", error)
        self._store.store_host = encode_host(self.address)
        return server

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

    def _make_parts(self) -> LastingParts:
        self._lanes = self._make_lanes()
        settings, clock = self.settings, self._clock
        return LastingParts(
            settings=settings,
            in_force=self.in_force,
            address=self.address,
            listen_host=self.listen_host,
            store=self._store,
            clock=clock,
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
            cold=ColdReaders(settings, clock),
            channels=self._channels,
            turns=self._turns,
            lanes=self._lanes,
            inner=InnerPuts(
                store=self._store,
                topics=self._topics,
                lanes=self._lanes,
                counters=self._counters,
                on_written=self._flusher.written,
            ),
            config_file=self._config_file,
            guard=self._guard,
        )

    async def close(self) -> None:
        """Unregister, close connections, save tables and close the store; callable after a failed start, too."""
        await self._closing.aclose()
