"""Runs a member of a group (`replication.group.RaftMember`) on a store, files, connections and clocks.

Events are handled one after the other: messages, ticks, and changes of the log. The actions that the state machine
returns are done before the next event; files other than the log are written in a thread. The state machine knows only
offsets of the log; parts of the log are copied as bytes.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cometmq.broker.replication.group.log_bytes import GroupLogBytes
from cometmq.broker.replication.group.member_files import MemberFiles, MemberState
from cometmq.model.clock import Clock
from cometmq.model.errors import RecordIllegal, SettingsError, StoreBusy, StoreError
from cometmq.net.loop import loop_chance
from cometmq.replication.far_slave_rate import FarSlaveRate
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.history import Row
from cometmq.replication.group.member import (
    HardState,
    NotAllowed,
    RaftMember,
    RaftRole,
    Ready,
    Write,
)
from cometmq.replication.group.messages import Append, Membership, Message
from cometmq.replication.group.timing import GroupTiming
from cometmq.replication.group.wire import Content, encode_message
from cometmq.steps.runner import StepsRun, World
from cometmq.steps.steps import Done, Steps, called_back, elsewhere
from cometmq.store.disk import NO_ROOM
from cometmq.store.message_store import MessageStore
from cometmq.store.running_flags import RunningFlag

_log = logging.getLogger(__name__)

# Parts are read and checked on the loop.
TIMING = GroupTiming(part_size=256 << 10, window_size=4 << 20)
_RETRY_SECONDS = 0.1
_DISK_FLAGS = (RunningFlag.DISK_FULL, RunningFlag.QUEUE_DISK_FULL, RunningFlag.INDEX_ERROR)

Event = Callable[[RaftMember, int], object]


class GroupPlace(NamedTuple):
    """The place of a member in its group.

    Attributes:
        group: Name of the group.
        own: Id of the member.
        voters: Ids of all members in dLegerPeers.
        preferred: Id of the member that is to lead if it can; empty if no member is preferred.
    """

    group: str
    own: str
    voters: tuple[str, ...]
    preferred: str = ""


def open_member(
    store: MessageStore, files: MemberFiles, place: GroupPlace, *, is_flushed: bool, now_ms: int
) -> tuple[GroupLog, MemberState]:
    """Return the log and the state with which a member starts; the number of the run is larger than ever before.

    Args:
        store: Its store, recovered.
        files: Its files.
        place: Its place in the group.
        is_flushed: Whether records are flushed before they count as stored (SYNC_FLUSH).
        now_ms: Wall time in ms, from which the first run of an empty directory gets its number.

    Raises:
        SettingsError: The directory is that of another member or group or has messages but was never a member's, or the
            members have changed.
        StoreDamaged: A file is damaged; the message has the repair.
        OSError: The disk failed.
    """
    state = files.load(group=place.group, own=place.own)
    rows: tuple[Row[int], ...] = ()
    if state is not None and store.max_offset:
        rows = files.load_terms()
    elif store.max_offset:
        raise SettingsError(
            "storePathRootDir has messages but has never been a member of a group, so that members could have different "
            "logs; write an empty storePathRootDir, and copy the messages into the group by a client"
        )
    if state is None:
        # It may be a member that lost its disk, so it may lack records that it acknowledged.
        hard = HardState(run=0, is_sure=False)
        state = MemberState(place.group, place.own, place.voters, hard, files.boot_id())
    else:
        was_same_boot = bool(state.boot_id) and state.boot_id == files.boot_id()
        has_all = store.was_clean or was_same_boot or is_flushed
        hard = state.hard._replace(is_sure=state.hard.is_sure and has_all)
        if not has_all:
            _log.warning(
                "the machine stopped without flushing the log: this member votes only together with all others until it has "
                "copied what it may have lost"
            )
    hard = hard._replace(run=max(hard.run + 1, now_ms))
    log = GroupLog(
        store.min_offset, store.max_offset, membership=Membership(state.voters), terms=rows,
        memberships=state.memberships,
    )  # fmt: skip
    _compare_members(log.membership, state.voters, place)
    # Without those whose records a crash has removed: the log may soon have other bytes there.
    rows_left = log.memberships.rows
    return log, replace(state, hard=hard, boot_id=files.boot_id(), memberships=rows_left)


def _compare_members(
    membership: Membership, began_with: tuple[str, ...], place: GroupPlace
) -> None:
    """Raise SettingsError if dLegerPeers was changed before the log has a change of members; afterwards log differences."""
    known, given = ", ".join(membership.everyone), ", ".join(place.voters)
    if not membership.places:
        if set(began_with) != set(place.voters):
            raise SettingsError(
                f"dLegerPeers has the members {given}, but this group began with {', '.join(began_with)}. Two majorities "
                "without a common member could then elect two leaders; write the same ids (their addresses may change), and "
                "change members by cometmq cluster member"
            )
        return
    if set(membership.everyone) != set(place.voters):
        _log.warning(
            "dLegerPeers has the members %s, but since it was written they were changed to %s, which applies; correct the file, "
            "unless two are left",
            given,
            known,
        )
    if place.own not in membership.everyone:
        _log.warning(
            "%s was removed from its group: it neither votes nor gets messages; stop this broker",
            place.own,
        )


class RunningMember:
    """A member of a group, from `start` to `close`.

    Attributes:
        member: Its state machine.
        place: Its place in the group.
        elections: Number of times since it was made that it learned of a new term; each term starts with an election.
        is_over: Whether it takes no part in the group any more, because of an error such as a failed disk.
        accepts_puts: Whether its store accepts messages.
        is_serving: Whether it leads, has committed a record of its term, and has dispatched everything before it.
        is_readable: Whether everything that consumers can see here is known to be committed; a restart forgets how much is.
        serving_since: Time in ms at which it began to serve, if it does.
        on_change: Called when it starts or stops serving, follows another leader, fails, or `is_readable` changes.
        on_members: Called when the members of the group have changed.
        on_event: Called when an event was handled, and when it stops or fails.
    """

    def __init__(
        self,
        store: MessageStore,
        files: MemberFiles,
        place: GroupPlace,
        opened: tuple[GroupLog, MemberState],
        *,
        world: World,
        clock: Clock,
        rate: FarSlaveRate,
        on_written: Callable[[], None],
    ) -> None:
        """`opened` is the result of `open_member`; `on_written` is called after the log was written, to flush it."""
        log, self._state = opened
        self.now = clock.boot_ms
        self.place = place
        self._bytes = GroupLogBytes(store, clock)
        self.member = RaftMember(
            place.own, log, self._state.hard, timing=TIMING, is_flushed=store.positions.needs_flush,
            rate=rate, cut=self._bytes.cut, chance=loop_chance().random, now=self.now(),
        )  # fmt: skip
        self.elections = self.serving_since = 0
        self.is_over = self.is_serving = self.accepts_puts = False
        self.on_change = self.on_members = self.on_event = _ignore
        self._change_end: int | None = None  # Of the record of a change that is not committed.
        self._store = store
        self._side = store.replica_side
        self._positions = store.positions
        self._files = files
        self._world = world
        self._on_written = on_written
        self._senders: Mapping[str, Callable[[list[Content]], None]] = {}
        self._events: deque[Event] = deque()
        self._is_running = self._is_closed = False
        self._ended: Callable[[], None] | None = None
        # At the last check: whether this member led, the id of the leader, and whether this member was readable.
        self._known = (False, "", False)
        self.is_readable = log.commit >= store.positions.dispatched
        self._cancel_tick: Callable[[], object] | None = None
        self._tick_at, self._seen = 0, (-1, -1)
        self._trouble = ""  # The latest error that may pass.

    # --- life

    def start(self, senders: Mapping[str, Callable[[list[Content]], None]]) -> None:
        """Take part in the group, at first refusing messages; `senders` has by member id a function that sends it a frame."""
        self._senders = senders
        self._side.begin_as_elected()
        self._side.on_moved(self.moved)
        self.put(_nothing)

    def close(self, ended: Callable[[], None]) -> None:
        """Stop; call back when all writes have ended."""
        self._is_closed = True
        self._events.clear()
        self._side.on_moved(None)
        self._stop_leading()
        self.on_event()
        if self._cancel_tick is not None:
            self._cancel_tick()
        if self._is_running:
            self._ended = ended
        else:
            ended()

    def serves_in(self, term: int) -> bool:
        """Return whether this member leads in this term, and serves."""
        return self.is_serving and self.member.term == term

    def accept_puts(self, term: int) -> None:
        """Let the store accept messages, if this member still leads the term; during a change of members, once it is complete.

        Raises:
            NotAllowed: It does not.
            OSError: The disk failed.
        """
        if not self.serves_in(term):
            raise NotAllowed(f"{self.place.own} does not lead the term {term} any more")
        if self._change_end is not None:
            return
        self._side.end_copying()
        self.accepts_puts = True

    @property
    def has_ended(self) -> bool:
        """True if this member takes no part in the group any more, because it was closed or is over."""
        return self._is_closed or self.is_over

    def pause_puts(self) -> None:
        """Let the store refuse messages until `accept_puts`, or until it leads the next time."""
        self._side.begin_copying(
            "the members or the leader of the group are being changed; send the message again"
        )
        self.accepts_puts = False

    def _stop_leading(self) -> None:
        self._side.stop_leading()
        self.accepts_puts = False

    def has_published(self) -> bool:
        """Return whether this leader's whole log is committed, and the senders that waited for it are notified."""
        end = self.member.log.end
        return self._positions.committed == end == self._positions.replicated

    def change_members(self, membership: Membership) -> None:
        """Begin a change of members; called in an event. No messages are accepted until its record is committed.

        Raises:
            NotAllowed: The log is not committed to its end, or messages or the store's bytes are not accepted; or as
                `RaftMember.change`.
        """
        # The record would wait for room in the store, and all messages between members behind it.
        if self._store.refusal is not None:
            raise NotAllowed(
                f"the store of the leader accepts nothing now: {self._store.refusal}"
            )
        if not self.accepts_puts or self.member.log.end != self._positions.committed:
            raise NotAllowed("the leader cannot change its log now; try again")
        self.member.change(membership)
        self._change_end = self.member.log.end + 1  # Until the record is written.
        self.pause_puts()

    # --- events

    def received(self, message: Message, done: Callable[[], None]) -> None:
        """Queue a message of another member; call `done` when its handling starts. Ignored once stopped or failed."""

        def step(member: RaftMember, now: int) -> None:
            done()
            member.step(message, now)

        self.put(step)

    def refused(self, other: str) -> None:
        """Note that no process listens at another member's address; if that was the leader, start an election soon."""

        def stand(member: RaftMember, now: int) -> None:
            if member.leader == other:
                member.leader_is_gone(now)

        self.put(stand)

    def moved(self) -> None:
        """Note that the log may have been written or flushed; called for each batch of sends."""
        positions = self._positions
        if (positions.committed, positions.local) != self._seen:
            self.put(_nothing)

    @property
    def refuses_for_its_disk(self) -> bool:
        """Whether the store accepts nothing because its disk is full, or takes no entries of queues or of the index."""
        return any(self._store.flags.has(flag) for flag in _DISK_FLAGS)

    def put(self, event: Event) -> None:
        """Queue an event, to be handled after those before it; ignored once this member has stopped or failed."""
        if self._is_closed or self.is_over:
            return
        self._events.append(event)
        if not self._is_running:
            self._is_running = True
            StepsRun(self._world, self._run(), self._ran).go_on()

    def _run(self) -> Steps[None]:
        while self._events:
            event = self._events.popleft()
            now = self.now()
            self._note_log(now)
            event(self.member, now)
            self._look()
            yield from self._do(self.member.ready())
            self._publish()
            self._end_change()
            self.on_event()
            # Only now: bytes that the state machine has cut are visible until the truncation has ended.
            self.is_readable = self.member.log.commit >= self._positions.dispatched
            self._look()

    def _ran(self, _result: None, error: BaseException | None) -> None:
        self._is_running = False
        if error is not None:
            self._fail(error)
        if self._ended is not None:
            self._ended()
        elif not self._is_closed and not self.is_over:
            self._schedule()

    def _fail(self, error: BaseException) -> None:
        """Take no part in the group until a restart, because of an error: a member whose disk fails must not lead."""
        _log.critical(
            "this member takes no part in its group any more, until it is restarted: %s",
            error,
            exc_info=None if isinstance(error, StoreError | OSError) else error,
        )
        self.is_over = True
        self._events.clear()
        self._stop_leading()
        self.is_serving, self._known = False, (False, "", self.is_readable)
        self.on_change()
        self.on_event()

    def _note_log(self, now: int) -> None:
        """Report the end of the written and of the stable log to the state machine, and its start if files were deleted."""
        member, positions = self.member, self._positions
        begin = self._store.min_offset
        if member.log.begin < begin <= member.log.commit:
            member.log.drop_before(begin)
        self._seen = committed, local = positions.committed, positions.local
        if member.role is RaftRole.LEADER and committed > member.log.end:
            member.appended(committed, now)
        stable = min(local, member.log.end)
        if stable > member.log.stable:
            member.stored(stable, member.log.generation, now)

    def _look(self) -> None:
        """Update `is_serving`, and call `on_change` if a change that it reports has happened.

        If the lead was lost, the store accepts no more messages.
        """
        member = self.member
        leads = member.role is RaftRole.LEADER
        led, leader, was_readable = self._known
        if led and not leads:
            self._stop_leading()
        begins = (
            leads and not self.is_serving and member.has_begun and not self._side.undispatched
        )
        if begins:
            self.serving_since = self.now()
        is_new = (led and not leads) or (not leads and leader != member.leader)
        is_new |= begins or was_readable != self.is_readable
        self.is_serving = leads and (self.is_serving or begins)
        self._known = leads, member.leader, self.is_readable
        if is_new:
            self.on_change()

    def _end_change(self) -> None:
        """Let the store accept messages again once the record of a change of members is committed."""
        end = self._change_end
        if end is not None and (not self.is_serving or self._positions.dispatched >= end):
            self._change_end = None
            if self.is_serving:
                self.accept_puts(self.member.term)

    def _publish(self) -> None:
        """Report to the store up to which offset the group has committed; as leader only while its lease is valid."""
        member, positions = self.member, self._positions
        end, leads = min(member.log.commit, positions.local), member.role is RaftRole.LEADER
        if leads and not member.may_answer(self.now()):
            return
        if positions.replicated is None or end > positions.replicated:
            self._side.replicated(end, int(leads))

    # --- actions that the machine returns

    def _do(self, ready: Ready) -> Steps[None]:
        """Execute the requests of the state machine, in this order: save state, truncate, save terms, append, send."""
        if ready.hard is not None:
            self.elections += ready.hard.term > self._state.hard.term
            self._state = replace(self._state, hard=ready.hard)
            yield from self._save(partial(self._files.save, self._state))
        if ready.restart_at is not None and not self._side.is_empty:
            raise StoreError(
                f"the leader's log begins at physical offset {ready.restart_at}, but this one ends before it, at "
                f"{self._store.max_offset}: move storePathRootDir away, and start this member with an empty one"
            )
        if ready.truncate_to is not None:
            yield from self._truncate(ready.truncate_to)
        if ready.has_new_rows:
            yield from self._save_rows()
        for write in ready.writes:
            yield from self._write(write)
        if ready.record is not None:
            yield from self._append_record(*ready.record)
        for to, message in ready.messages:
            self._send(to, message)

    def _save(self, save: Callable[[], None]) -> Steps[None]:
        """Write a file in a thread; retry while the disk is full."""
        while True:
            try:
                return (yield from elsewhere(save))
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                yield from self._retry_after(error, "the state of this member cannot be saved")

    def _save_rows(self) -> Steps[None]:
        """Save the terms, and the memberships if they have changed."""
        terms, memberships = self.member.log.terms.rows, self.member.log.memberships.rows
        yield from self._save(partial(self._files.save_terms, terms))
        if memberships != self._state.memberships:
            self._state = replace(self._state, memberships=memberships)
            yield from self._save(partial(self._files.save, self._state))
            self.on_members()

    def _truncate(self, end: int) -> Steps[None]:
        _log.warning(
            "the log is cut at physical offset %d, as the leader's differs from there; a copy is in the folder cut",
            end,
        )
        while True:
            try:
                for step in self._store.truncate_steps(end):
                    yield from elsewhere(step)
            except StoreBusy:
                yield from self._pause()
            except StoreError as error:
                yield from self._retry_after(error, "the log cannot be cut")
            else:
                return

    def _write(self, write: Write) -> Steps[None]:
        content = write.part.content
        assert isinstance(content, bytearray)
        yield from self._append(write.offset, memoryview(content)[write.skip :])

    def _append(self, offset: int, content: memoryview) -> Steps[None]:
        """Append bytes to the log, dispatch and flush them; retry while the store refuses them only for now."""
        while content:
            try:
                end = self._bytes.append(offset, content)
            except StoreError as error:
                yield from self._retry_after(error, "the leader's records cannot be stored")
                continue
            content, offset = content[end - offset :], end
            self._seen = self._positions.committed, self._positions.local
            self._store.dispatch_pending()
            self._on_written()

    def _append_record(self, term: int, membership: Membership) -> Steps[None]:
        """Append the record that starts this leader's term or changes members, and execute the requests that follow."""
        offset = self.member.log.end
        content = self._bytes.group_record(offset, self.place.group, term, membership)
        yield from self._append(offset, memoryview(content))
        now = self.now()
        self.member.appended(offset + len(content), now)
        self._note_log(now)
        yield from self._do(self.member.ready())
        if self.is_serving:
            self._change_end = self.member.log.end

    def _send(self, to: str, message: Message) -> None:
        content: Content = b""
        if isinstance(message, Append) and message.end > message.begin:
            try:
                content = self._bytes.read(message.begin, message.end)
            except StoreError:
                return  # These files have just been deleted; the next part takes that into account.
            if message.end > self.member.log.commit:
                content = bytes(content)  # A truncation may change them before they are sent.
        send = self._senders.get(to)
        if send is not None:  # The address of the other member may still be unknown.
            send(encode_message(message, content))

    def _retry_after(self, error: StoreError | OSError, what: str) -> Steps[None]:
        """Log an error that may pass, such as a full disk, and wait; raise it if it cannot pass or this member stops."""
        is_final = isinstance(error, RecordIllegal) or self._store.needs_restart
        if is_final or self._is_closed:
            raise error
        if str(error) != self._trouble:
            _log.warning("%s now: %s; this is retried", what, error)
        self._trouble = str(error)
        yield from self._pause()

    def _pause(self) -> Steps[None]:
        def begin(done: Done) -> None:
            self._world.call_later(_RETRY_SECONDS, lambda: done(None, None))

        yield from called_back(begin)

    # --- time

    def _schedule(self) -> None:
        """Set the timer for the next tick of the state machine."""
        at = self.member.wake_at()
        if self._cancel_tick is not None:
            if at == self._tick_at:
                return
            self._cancel_tick()
        self._tick_at = at
        seconds = max(at - self.now(), 1) / 1000
        self._cancel_tick = self._world.call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._cancel_tick = None
        self.put(self._ticked)

    def _ticked(self, member: RaftMember, now: int) -> None:
        if self._store.needs_restart:
            raise StoreError(f"the store accepts nothing: {self._store.refusal}")
        member.tick(now)


def _ignore() -> None:
    """Do nothing when an event is reported."""


def _nothing(_member: RaftMember, _now: int) -> None:
    """Do nothing; this event only lets the member look at its log again."""
