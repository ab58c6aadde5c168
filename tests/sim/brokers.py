"""Three real brokers that elect their leader, a nameserver and real clients, on simulated machines in one process."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any

from cometmq import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    MessageQueue,
    PushConsumerSettings,
    SendStatus,
    StoredMessage,
)
from cometmq.broker.parts import LastingParts
from cometmq.broker.replication.group.elected_group import ElectedGroup
from cometmq.broker.replication.group.running_member import RunningMember
from cometmq.broker.server import Broker
from cometmq.broker.settings.broker_settings import BrokerSettings, settings_of
from cometmq.codec.record import decode_records
from cometmq.connect import AsyncQueueReader
from cometmq.errors import CometError
from cometmq.model.settings import Layer
from cometmq.nameserver.server import NameServer
from cometmq.nameserver.settings import NameServerSettings
from cometmq.replication.group.member import RaftRole
from tests.sim.broker_checks import BrokerChecks
from tests.sim.machines import Machine, MachineLoop
from tests.sim.operators import Operator
from tests.sim.places import (
    BROKER,
    CLIENT_IP,
    IPS,
    NAMES,
    NAMES_IP,
    NAMES_PORT,
    VOTERS,
    peers_of,
)
from tests.sim.traffic import Traffic
from tests.sim.world import Trace

TOPIC = "orders"
READERS = "readers"
SENDERS = 3
STORM_SECONDS = 40.0
HEALED_SECONDS = 20.0
_LOOK_SECONDS = 0.02
_CONSUMED_SECONDS = 1.0  # After which a consumer has got the last messages.
_CONF = {
    "namesrvAddr": NAMES,
    "brokerName": BROKER,
    "enableDLegerCommitLog": "true",
    "storePathRootDir": "/store",
    "mappedFileSizeCommitLog": str(256 << 10),
    "mappedFileSizeConsumeQueue": "20000",
    "maxMessageSize": "65536",
    "messageIndexEnable": "false",
    "timerWheelEnable": "false",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "1000",
    "metricsExporterType": "DISABLE",
}


class BrokerGroup:
    """A group of brokers, of which clients send and read, and faults that a scene may cause.

    Attributes:
        loop: Its time.
        chance: The source of a scene's randomness.
        checks: What was seen.
        machines: The machines of the members, by dLegerSelfId.
        spare: The machines that are no members, with empty disks, by the id that they get.
        is_over: Whether the story is over and the group is healed, so that clients begin nothing new.
    """

    def __init__(self, seed: int) -> None:
        self.loop = MachineLoop(seed)
        self.chance = chance = Random(seed)
        self.is_sync_flush = chance.random() < 0.5
        self.checks = BrokerChecks()
        machines = {member: Machine(ip, self.loop, chance) for member, ip in IPS.items()}
        self.machines = dict([*machines.items()][:VOTERS])
        self.spare = dict([*machines.items()][VOTERS:])
        # The file of a member has the list of the time at which its machine was set up.
        self._peers = dict.fromkeys(self.machines, peers_of(self.machines))
        self._preferred = chance.choice(["", "", "", "n0"])
        self._names = Machine(NAMES_IP, self.loop, chance)
        self._client = Machine(CLIENT_IP, self.loop, chance)
        self.operator = Operator(self)
        self._traffic = Traffic(self)
        self._running: dict[str, tuple[ElectedGroup, LastingParts]] = {}
        self._trace = Trace()
        self.is_over = False
        self._sent = 0

    @property
    def trace(self) -> str:
        """Hash of all that happened."""
        return str(self._trace)

    def note(self, *what: object) -> None:
        """Add an event to the trace."""
        self._trace.note(self.loop.time() * 1000, *what)

    def run(self, story: Callable[["BrokerGroup"], Coroutine[Any, Any, None]]) -> None:
        """Start everything, let a story happen, heal the group and check that nothing is lost."""
        logging.disable(logging.CRITICAL)
        try:
            self.loop.run_until_complete(self._run(story))
        finally:
            self.loop.end()
            logging.disable(logging.NOTSET)

    async def _run(self, story: Callable[["BrokerGroup"], Coroutine[Any, Any, None]]) -> None:
        self._names.start(_serve_names(self._names))
        for member in self.machines:
            self.start(member)
        clients = self._client.start(self._use())
        looks = asyncio.ensure_future(self._look())
        await story(self)
        await self._heal()
        self.is_over = True
        await asyncio.gather(clients, looks)

    # --- what happens

    def start(self, member: str) -> None:
        """Start the broker of a member, unless it runs."""
        machine = self.machines.get(member)
        if machine is None or machine.process is not None:
            return
        self.note("start", member)
        flush = "SYNC_FLUSH" if self.is_sync_flush else "ASYNC_FLUSH"
        peers = self._peers[member]
        own = {
            "dLegerSelfId": member, "brokerIP1": machine.ip, "bindAddress": machine.ip,
            "flushDiskType": flush, "dLegerPeers": peers,
            "preferredLeaderId": self._preferred if self._preferred in peers else "",
        }  # fmt: skip
        settings, _ = settings_of([Layer("simulated", {**_CONF, **own})])
        machine.start(self._serve(member, settings, machine))

    async def _serve(self, member: str, settings: BrokerSettings, machine: Machine) -> None:
        broker = Broker(settings, machine.clock, disk=machine.disk)
        try:
            await broker.start()
        except (CometError, OSError) as error:
            if not machine.disk.faults:
                self.checks.failures.append(f"{member} does not start: {error}")
            self.kill(member)
            self.later(1, 2, lambda: self.start(member))
            return
        replicas: object = broker.role.replicas
        assert isinstance(replicas, ElectedGroup)
        self._running[member] = replicas, broker.role.ground.parts
        await asyncio.Event().wait()

    def kill(self, member: str) -> None:
        """End a broker as `kill -9` does."""
        self.note("kill", member)
        self._running.pop(member, None)
        self.checks.restarted(member)
        self.machines[member].kill()

    def cut_power(self, member: str) -> None:
        """Cut the power of a broker's machine."""
        self.note("power", member)
        self._running.pop(member, None)
        self.checks.restarted(member)
        self.machines[member].cut_power()

    def retire(self, member: str) -> None:
        """End a broker for good, and take its disk away."""
        self.note("retire", member)
        self.machines[member].resume()
        self.kill(member)
        self.spare[member] = machine = self.machines.pop(member)
        machine.lose_files()

    def set_up(self, member: str) -> None:
        """Make a spare machine a member, and start its broker on an empty disk."""
        self.note("set up", member)
        self.machines[member] = self.spare.pop(member)
        self._peers[member] = peers_of(self.machines)
        self.start(member)

    def cut_off(self, member: str, *, inwards: bool, outwards: bool) -> None:
        """Cut a broker off from everything else."""
        self.note("cut", member, inwards, outwards)
        own, network = self.machines[member].ip, self.loop.network
        for other in network.machines.keys() - {own}:
            network.cuts |= {(other, own)} if inwards else set()
            network.cuts |= {(own, other)} if outwards else set()

    def rejoin(self) -> None:
        """Mend all connections."""
        self.note("mend")
        self.loop.network.mend()

    def later(self, low: float, high: float, action: Callable[[], object]) -> None:
        """Do something after a random number of seconds."""
        self.loop.call_later(self.chance.uniform(low, high), action, context=Context())

    def running(self, member: str) -> RunningMember | None:
        """Return the running membership of a broker; None if it does not run, or is just being started."""
        return self._running[member][0].running if member in self._running else None

    def membership(self, member: str) -> tuple[ElectedGroup, LastingParts]:
        """Return the membership of a broker that runs, and its parts."""
        return self._running[member]

    @property
    def leader(self) -> str | None:
        """The member that leads in the latest term, if any does."""
        leading = [
            (running.member.term, member)
            for member in self.machines
            if (running := self.running(member)) is not None
            and running.member.role is RaftRole.LEADER
        ]
        return max(leading)[1] if leading else None

    @property
    def voters(self) -> set[str]:
        """Everyone who votes by the log of any broker that runs."""
        return {
            voter
            for group, _ in self._running.values()
            for voter in group.running.member.log.membership.voters
        }

    async def _heal(self) -> None:
        self.rejoin()
        for member, machine in [*self.machines.items()]:
            machine.resume()
            machine.disk.heal()
            machine.clock.ahead_ms = 0
            running = self.running(member)
            if running is not None and running.is_over:
                self.kill(member)
            self.start(member)
        await self.operator.finish()
        await asyncio.sleep(HEALED_SECONDS / 2)
        before = self.checks.acknowledged_count
        await asyncio.sleep(HEALED_SECONDS / 2)
        assert self.checks.acknowledged_count > before, "the healed group acknowledges nothing"

    # --- what is seen

    async def _look(self) -> None:
        """Check the members again and again."""
        while not self.is_over:
            await asyncio.sleep(_LOOK_SECONDS)
            for member, (group, parts) in [*self._running.items()]:
                running, store = group.running, parts.store
                raft = running.member
                if running.is_over:
                    continue
                if raft.role is RaftRole.LEADER and self.checks.leads(member, raft.term):
                    self.note("leads", member, raft.term)
                # What consumers may see; the state machine may know more than is written.
                self.checks.committed(member, store.positions.replicated or 0, store)
            assert not self.checks.failures, self.checks.failures

    # --- clients

    async def _use(self) -> None:
        """Send and consume until the story is over, then read everything."""
        settings = PushConsumerSettings(
            consume_from=ConsumeFrom.FIRST,
            persist_interval_ms=1_000,
            rebalance_interval_ms=2_000,
        )
        async with (
            AsyncProducer(NAMES) as producer,
            AsyncQueueReader(NAMES, group=READERS) as reader,
            AsyncPushConsumer(
                NAMES,
                group=READERS,
                listener=self._consumed,
                subscriptions=[TOPIC],
                settings=settings,
            ),
        ):
            senders = [self._send_in_order(producer, each) for each in range(SENDERS)]
            more = self._traffic.kinds(producer)
            await asyncio.gather(self._watch_commits(reader), *senders, *more)
            await self._read(reader)

    async def _consumed(self, message: StoredMessage) -> None:
        self.checks.consumed(message.queue.queue_id, message.queue_offset, message.body)

    async def _watch_commits(self, reader: AsyncQueueReader) -> None:
        """Look at the committed offsets of the consumers each second."""
        while not self.is_over:
            await asyncio.sleep(1)
            try:
                topic = (await reader.queues([TOPIC]))[TOPIC]
            except CometError:
                continue
            if isinstance(topic, CometError):
                continue
            term = self._leading_term()
            offsets = await reader.committed_offsets(topic.readable)
            if term != self._leading_term():
                term = None  # Who was suspended meanwhile may not know that it leads no more.
            for queue, offset in offsets.items():
                if isinstance(offset, int):
                    self.checks.commit_seen(queue.queue_id, offset, term)

    def _leading_term(self) -> int | None:
        """Return the term of the leader that may answer now; None if there is none."""
        for member, (group, _) in self._running.items():
            running = group.running
            if running.is_serving and running.member.may_answer(
                self.machines[member].clock.boot_ms()
            ):
                return running.member.term
        return None

    async def _send_in_order(self, producer: AsyncProducer, sender: int) -> None:
        chance = Random(self.chance.random())
        while not self.is_over:
            self._sent += 1
            body = b"%d %d " % (sender, self._sent) + b"x" * chance.randint(0, 900)
            try:
                result = await producer.send(Message(TOPIC, body))
            except CometError:
                await asyncio.sleep(0.1)
                continue
            if result.status is SendStatus.OK:
                queue, offset = result.queue.queue_id, result.queue_offset
                self.note("acknowledged", queue, offset, body[:12])
                self.checks.acknowledged(sender, queue, offset, body)
            await asyncio.sleep(chance.uniform(0, 0.2))

    async def _read(self, reader: AsyncQueueReader) -> None:
        """Read all queues, and check that what was acknowledged is in its place, and was consumed."""
        found: dict[tuple[int, int], bytes] = {}
        topic = (await reader.queues([TOPIC]))[TOPIC]
        assert not isinstance(topic, CometError)
        ends = await reader.max_offsets(topic.readable)
        last: dict[int, int] = {}
        for queue, end in ends.items():
            assert isinstance(end, int), end
            last[queue.queue_id] = end
            await self._read_queue(reader, queue, end, found)
        await asyncio.sleep(_CONSUMED_SECONDS)
        self.checks.holds_all(found)
        await self._traffic.finish(last)

    async def _read_queue(
        self,
        reader: AsyncQueueReader,
        queue: MessageQueue,
        end: int,
        found: dict[tuple[int, int], bytes],
    ) -> None:
        async for pull in reader.read(queue, 0, end):
            for record in decode_records(pull.body):
                found[queue.queue_id, record.queue_offset] = bytes(record.body)


async def _serve_names(machine: Machine) -> None:
    settings = NameServerSettings(
        bind_address=machine.ip, listen_port=NAMES_PORT, kv_config_path=None
    )
    await NameServer(settings, machine.clock).start()
    await asyncio.Event().wait()


# --- scenes


def brokers(seed: int) -> BrokerGroup:
    """All faults at random times, one or several at once, under sends."""
    group = BrokerGroup(seed)
    group.run(_storm)
    return group


async def _storm(group: BrokerGroup) -> None:
    chance, end = group.chance, group.loop.time() + STORM_SECONDS
    chosen = [fault for fault in FAULTS if chance.random() < 0.7] or [_kill_leader]
    await asyncio.sleep(5)
    while group.loop.time() < end:
        chance.choice(chosen)(group, chance.choice([*group.machines]))
        await asyncio.sleep(chance.expovariate(1 / 2.5))


def _kill(group: BrokerGroup, member: str) -> None:
    group.kill(member)
    group.later(0.1, 4, lambda: group.start(member))


def _kill_leader(group: BrokerGroup, member: str) -> None:
    _kill(group, group.leader or member)


def _cut_power(group: BrokerGroup, member: str) -> None:
    if _may_lose(group, member):
        group.cut_power(member)
        group.later(0.5, 5, lambda: group.start(member))


def _pause(group: BrokerGroup, member: str) -> None:
    machine = group.machines[member]
    group.note("pause", member)
    machine.pause()
    group.later(0.2, 5, machine.resume)


def _pause_leader(group: BrokerGroup, member: str) -> None:
    _pause(group, group.leader or member)


def _cut_off(group: BrokerGroup, member: str) -> None:
    inwards, outwards = group.chance.choice([(True, True), (True, False), (False, True)])
    group.cut_off(member, inwards=inwards, outwards=outwards)
    group.later(0.5, 6, group.rejoin)


def _fail_disk(group: BrokerGroup, member: str) -> None:
    """Let flushes fail, until an operator has mended the disk and started the broker again."""
    group.note("disk", member)
    disk = group.machines[member].disk
    disk.fail("fdatasync", forever=True)

    def mended() -> None:
        if member in group.machines and group.machines[member].disk is disk:
            disk.heal()
            group.kill(member)
            group.start(member)

    group.later(0.5, 4, mended)


def _set_clock(group: BrokerGroup, member: str) -> None:
    """Set a wall clock wrong by up to an hour."""
    ahead_ms = group.chance.randint(-3_600_000, 3_600_000)
    group.note("clock", member, ahead_ms)
    group.machines[member].clock.ahead_ms = ahead_ms


def _hand_over(group: BrokerGroup, member: str) -> None:
    group.operator.hand_over(member)


def _replace_dead(group: BrokerGroup, member: str) -> None:
    if _may_lose(group, member):
        group.operator.replace(member, is_dead=True)


def _may_lose(group: BrokerGroup, member: str) -> bool:
    """Return whether a member may lose messages: if brokers flush later than they acknowledge, two must not at a time."""
    others = (group.voters | {*group.machines}) - {member}
    running = [group.running(each) for each in others]
    return group.is_sync_flush or all(each and each.member.hard.is_sure for each in running)


def _replace(group: BrokerGroup, member: str) -> None:
    group.operator.replace(member, is_dead=False)


FAULTS: tuple[Callable[[BrokerGroup, str], None], ...] = (
    _kill, _kill_leader, _cut_power, _pause, _pause_leader, _cut_off, _fail_disk, _set_clock, _hand_over,
    _replace_dead, _replace,
)  # fmt: skip
