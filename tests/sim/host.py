"""A simulated process of one member: does what its machine asks for, answers clients, and can be killed at any moment."""

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from cometmq.replication.far_slave_rate import FarSlaveRate
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.member import HardState, RaftMember, RaftRole, Ready
from cometmq.replication.group.messages import Append, Membership, Message
from cometmq.replication.group.timing import GroupTiming
from cometmq.replication.terms import SlaveRates
from tests.sim.checks import Checks
from tests.sim.disk import Disk, Record, Sent
from tests.sim.world import Clock, World

TIMING = GroupTiming(part_size=600, window_size=3_000)
RECORD_SIZE = 64  # Size of a record of the group's own.
QUEUES = 3


class Host:
    """A member with its disk and clock.

    Attributes:
        own: Its id.
        disk: Its disk.
        clock: Its clock.
        member: Its machine; None while the process does not run.
        peers: The hosts of all members, by id.
        queues: The next offset of each queue, which a leader gives out.
        rate: The limits for what it sends to the others as a leader.
        is_paused: Whether the process is suspended: it handles nothing, and its clock goes on.
    """

    def __init__(
        self,
        own: str,
        world: World,
        checks: Checks,
        membership: Membership,
        *,
        is_sync_flush: bool,
    ) -> None:
        self.own = own
        self.disk = Disk()
        self.clock = Clock(
            world, world.chance.uniform(0.97, 1.03), world.chance.uniform(0, 1e6)
        )
        self.member: RaftMember | None = None
        self.is_paused = False
        self.peers: dict[str, Host] = {}
        self.queues: Counter[int] = Counter()
        self.rate = FarSlaveRate(SlaveRates())
        self._world = world
        self._checks = checks
        self._membership = membership
        self._is_sync_flush = is_sync_flush
        self._inputs: deque[Callable[[RaftMember], object]] = deque()
        self._loop: Iterator[float | None] = iter(())
        self._is_idle = False  # The loop waits for an input.
        self._is_due = False  # The loop was to go on while the process was suspended.
        self._waiting: list[
            tuple[Record, int]
        ] = []  # What clients wait for, and in which term it was appended.
        self._life = 0  # Number of processes so far.
        self._wake_time = 0.0  # When the next tick is scheduled.
        self._seen_commit = 0
        self._was_leading = False
        self._has_lost = False  # The machine has lost power, and no process has run since.
        self._is_flushing = False

    # Life.

    def start(self) -> None:
        """Start the process on its disk, if it does not run."""
        if self.member is not None:
            return
        files = self.disk.files
        log = GroupLog(
            files.begin, files.end, membership=self._membership, terms=files.terms, memberships=files.memberships
        )  # fmt: skip
        member = RaftMember(
            self.own, log, self._hard_state(), timing=TIMING, is_flushed=self._is_sync_flush, rate=self.rate,
            cut=self._cut, chance=self._world.chance.random, now=self.now(),
        )  # fmt: skip
        self._has_lost = False
        self._life += 1
        self._inputs.clear()
        self._waiting = []
        self._seen_commit, self._wake_time = files.begin, float("inf")
        self._was_leading = self._is_flushing = False
        self.member, self.is_paused = member, False
        self.queues.clear()
        self._loop = self._run(member)
        self._world.note("start", self.own, files.end)
        self._go_on(self._life)

    def _hard_state(self) -> HardState:
        hard = self.disk.files.hard
        is_sure = hard.is_sure and (self._is_sync_flush or not self._has_lost)
        return hard._replace(run=hard.run + 1, is_sure=is_sure)

    def kill(self) -> None:
        """End the process. Its machine closes connections and refuses new ones, which the others notice."""
        if self.member is None:
            return
        self._world.note("kill", self.own)
        self._end()
        for peer in self.peers.values():
            self._world.send(self.own, peer.own, partial(peer.sees_death_of, self.own))

    def cut_power(self) -> None:
        """End the process and lose what the disk did not flush. The machine's clock begins again at 0."""
        self._world.note("power", self.own)
        self._end()
        self._has_lost = True
        self.disk.cut_power(self._world.chance)
        self.clock.offset = -self._world.now * self.clock.rate

    def lose_files(self) -> None:
        """Replace the disk of a process that does not run by an empty one."""
        run = self.disk.files.hard.run
        self.disk = Disk()
        # As a process sees it: its directory is new, and its run has a number from the clock.
        self.disk.files.hard = HardState(run=run, is_sure=False)

    def _end(self) -> None:
        self.member, self.is_paused = None, False
        self._life += 1

    def pause(self) -> None:
        """Suspend the process."""
        if self.member is not None:
            self._world.note("pause", self.own)
            self.is_paused, self._is_due = True, False

    def resume(self) -> None:
        """Let the process go on."""
        if self.is_paused:
            self._world.note("resume", self.own)
            self.is_paused = False
            if self._is_due or (self._is_idle and self._inputs):
                self._go_on(self._life)

    def set_clock_ahead(self, ms: float) -> None:
        """Let its clock jump ahead. If it leads, its lease ends early; a voter's clock must not jump."""
        self._world.note("clock", self.own, int(ms))
        self.clock.offset += ms

    @property
    def is_sure(self) -> bool:
        """Whether it has everything that it acknowledged."""
        return self.disk.files.hard.is_sure and not self._has_lost

    # What happens to it.

    def now(self) -> int:
        """Return the time that its process sees."""
        return self.clock.now()

    def receive(self, message: Message) -> None:
        """Handle a message of another member."""
        self.put(lambda member: member.step(message, self.now()))

    def sees_death_of(self, other: str) -> None:
        """Notice that the process of another member has ended."""

        def stand(member: RaftMember) -> None:
            if member.leader == other and self.peers[other].member is None:
                member.leader_is_gone(self.now())

        self.put(stand)

    def write(self, content: int, size: int) -> None:
        """Append a client's record if this member leads; the client is answered when it may."""

        def append(member: RaftMember) -> None:
            if member.may_append and self.may_answer(member):
                queue = content % QUEUES
                sent = Sent(content, queue, self.queues[queue])
                self.queues[queue] += 1
                record = Record(member.log.end, size, member.term, sent)
                self._append(member, record)
                self._waiting.append((record, member.term))

        self.put(append)

    def trim(self, share: float) -> None:
        """Remove a share of the committed log, as retention does. The last record of each queue stays, as queues keep their ends."""

        def drop(member: RaftMember) -> None:
            files, log = self.disk.files, member.log
            limit = log.begin + (log.commit - log.begin) * share
            committed = [each for each in files.records if each.end <= log.commit]
            limit = min(limit, *_last_places(committed).values(), log.commit)
            while files.records and files.records[0].end <= limit:
                files.begin = files.records.pop(0).end
            log.drop_before(files.begin)
            self.disk.flush_log()  # Only files that were flushed long ago are removed.

        self.put(drop)

    def put(self, action: Callable[[RaftMember], object]) -> None:
        """Let the process do something with its machine, after what came before."""
        if self.member is not None:
            self._inputs.append(action)
            if self._is_idle and not self.is_paused:
                self._go_on(self._life)

    def may_answer(self, member: RaftMember) -> bool:
        """Return whether the lease holds now."""
        return member.may_answer(self.now())

    # Its loop.

    def _go_on(self, life: int) -> None:
        if life != self._life:
            return
        if self.is_paused:
            self._is_due = True
            return
        self._is_idle = self._is_due = False
        delay = next(self._loop)
        if life != self._life:
            return
        if delay is None:
            self._is_idle = True
        else:
            self._world.after(delay, partial(self._go_on, life))

    def _run(self, member: RaftMember) -> Iterator[float | None]:
        """Handle inputs one after the other. Yields the ms that a flush takes, or None to wait for an input."""
        yield from self._do(member, member.ready())
        while True:
            while not self._inputs:
                yield None
            self._inputs.popleft()(member)
            yield from self._do(member, member.ready())

    def _do(self, member: RaftMember, ready: Ready) -> Iterator[float]:
        """Do what is ready, in order."""
        files = self.disk.files
        if ready.hard is not None:
            files.hard = ready.hard
            yield from self._flushed(self.flush_hard)
        if ready.restart_at is not None:
            files.begin, files.records = ready.restart_at, []
        if ready.truncate_to is not None:
            while files.end > ready.truncate_to:
                files.records.pop()
        if ready.restart_at is not None or ready.truncate_to is not None:
            yield from self._flushed(self.disk.flush_log)
        if ready.has_new_rows:
            files.terms, files.memberships = member.log.terms.rows, member.log.memberships.rows
            yield from self._flushed(self.disk.flush_tables)
        for write in ready.writes:
            assert files.end == write.offset, "a write leaves a gap"
            content = write.part.content
            assert isinstance(content, tuple)
            files.records.extend(each for each in content if each.offset >= write.offset)
            assert files.end == write.part.end
            self._flush_soon(member)
        if ready.record is not None:
            term, membership = ready.record
            self._append(member, Record(member.log.end, RECORD_SIZE, term, membership))
        for to, message in ready.messages:
            self._send(to, message)
        self._look(member)
        self._schedule(member)

    def flush_hard(self) -> None:
        """Flush term and vote."""
        self.disk.flush_hard()

    def _flushed(self, flush: Callable[[], None]) -> Iterator[float]:
        yield self._world.chance.uniform(0.1, 2.0)
        if self.disk.is_failing:
            self.kill()  # A failed flush is final for a process.
            yield 0.0
        flush()

    def _append(self, member: RaftMember, record: Record) -> None:
        self.disk.files.records.append(record)
        member.appended(record.end, self.now())
        self._flush_soon(member)

    def _flush_soon(self, member: RaftMember) -> None:
        end, generation = member.log.end, member.log.generation
        if not self._is_sync_flush:
            self._inputs.append(lambda member: member.stored(end, generation, self.now()))
        elif not self._is_flushing:
            self._is_flushing = True
            chance = self._world.chance
            delay = chance.uniform(0.2, 400.0 if chance.random() < 0.02 else 8.0)
            done = partial(self._flushed_log, self._life, end, generation)
            self._world.after(delay, done)

    def _flushed_log(self, life: int, end: int, generation: int) -> None:
        member = self.member
        if life != self._life or member is None:
            return
        self._is_flushing = False
        if self.disk.is_failing:
            self.kill()
            return
        if generation == member.log.generation:
            self.disk.flush_log(end)
        self.put(lambda member: member.stored(end, generation, self.now()))
        if self.disk.files.end > end or generation != member.log.generation:
            self._flush_soon(member)

    def _send(self, to: str, message: Message) -> None:
        peer = self.peers[to]
        if isinstance(message, Append):
            message = replace(message, content=self._content(message))
        self._world.send(self.own, to, partial(peer.receive, message))

    def _content(self, part: Append) -> tuple[Record, ...]:
        records = self.disk.files.records
        first = bisect_left(records, part.begin, key=lambda each: each.offset)
        last = bisect_left(records, part.end, key=lambda each: each.offset)
        return tuple(records[first:last])

    def _cut(self, begin: int, limit: int) -> int:
        records = self.disk.files.records
        first = bisect_left(records, begin, key=lambda each: each.offset)
        last = bisect_right(records, limit, key=lambda each: each.end)
        return records[max(last - 1, first)].end

    def _schedule(self, member: RaftMember) -> None:
        """Let the machine tick at the time that it wants to."""
        at = self._world.now + self.clock.true_delay(member.wake_at())
        if at < self._wake_time:
            self._wake_time = at
            self._world.after(at - self._world.now, partial(self._tick, self._life, at))

    def _tick(self, life: int, at: float) -> None:
        if life == self._life and at == self._wake_time:
            self._wake_time = float("inf")
            self.put(lambda member: member.tick(self.now()))

    def count_queues(self) -> None:
        """Find the ends of the queues in the log: other leaders may have given out offsets, and some were cut."""
        self.queues.clear()
        for each in self.disk.files.records:
            if isinstance(each.content, Sent):
                self.queues[each.content.queue] = each.content.queue_offset + 1

    # What is seen of it.

    def _look(self, member: RaftMember) -> None:
        """Check what may be seen now, and answer clients."""
        is_leading = member.role is RaftRole.LEADER
        if is_leading and not self._was_leading:
            self._world.note("leads", self.own, member.term)
            self._checks.leads(self.own, member.term, self.disk.files)
            self.count_queues()
        self._was_leading = is_leading
        commit = member.log.commit
        assert commit >= self._seen_commit, "a commit was taken back"
        assert commit <= member.log.end, f"{self.own} lacks bytes that it knows to be committed"
        if commit > self._seen_commit:
            self._checks.committed(self.own, self._seen_commit, commit, self.disk.files)
            self._seen_commit = commit
        if self._waiting:
            self._waiting = [each for each in self._waiting if not self._is_done(member, *each)]

    def _is_done(self, member: RaftMember, record: Record, term: int) -> bool:
        """Answer a client if it may be answered; return whether it waits no longer."""
        if member.role is not RaftRole.LEADER or term != member.term:
            return True
        if not self.is_answerable(member, record):
            return False
        self._checks.acknowledged(self.own, record, term)
        return True

    def is_answerable(self, member: RaftMember, record: Record) -> bool:
        """Return whether a record may be acknowledged."""
        return member.log.commit >= record.end and self.may_answer(member)


def _last_places(records: list[Record]) -> dict[int, int]:
    """Return the offset of the last record of each queue."""
    return {
        each.content.queue: each.offset for each in records if isinstance(each.content, Sent)
    }
