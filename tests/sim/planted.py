"""Bugs that are planted into the machine or its host, to see that the simulator finds them."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from cometmq.replication.group.followers import Followers, _majority_has
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.member import HardState, RaftMember
from cometmq.replication.group.messages import Append, Membership
from tests.sim.disk import Disk, Record
from tests.sim.host import Host

Plant = dict[tuple[type, str], Callable[..., object]]


def _vote_not_flushed() -> Plant:
    return {(Host, "flush_hard"): lambda _host: None}


def _answer_before_the_majority() -> Plant:
    def is_answerable(host: Host, member: RaftMember, record: Record) -> bool:
        return member.log.stable >= record.end and host.may_answer(member)

    return {(Host, "is_answerable"): is_answerable}


def _commit_of_an_old_term() -> Plant:
    def committed(self: Followers) -> int:
        log = self._log
        stable = [
            log.stable if each == self._own else self[each].stable for each in self._voters
        ]
        return _majority_has(stable, log.membership)

    return {(Followers, "committed"): committed}


def _length_compared_before_term() -> Plant:
    def is_covered_by(log: GroupLog, last_term: int, end: int) -> bool:
        return (end, last_term) >= (log.end, log.last_term)

    return {(GroupLog, "is_covered_by"): is_covered_by}


def _truncation_below_the_commit() -> Plant:
    """A part that comes late cuts what came after it."""

    def difference(log: GroupLog, append: Append) -> int:
        return min(append.begin, log.end)

    def truncate(log: GroupLog, end: int) -> None:
        log.end = end
        log.stable = min(log.stable, end)
        log.generation += 1
        log.forget_unwritten()

    return {(GroupLog, "difference"): difference, (GroupLog, "truncate"): truncate}


def _lease_on_a_clock_that_stops_in_a_pause() -> Plant:
    since: dict[Host, int] = {}
    lost: Counter[Host] = Counter()
    pause, resume = Host.pause, Host.resume

    def paused(host: Host) -> None:
        since.setdefault(host, host.now())
        pause(host)

    def resumed(host: Host) -> None:
        if host.is_paused:
            lost[host] += host.now() - since[host]
        since.pop(host, None)
        resume(host)

    def may_answer(host: Host, member: RaftMember) -> bool:
        return member.may_answer(host.now() - lost[host])

    return {
        (Host, "pause"): paused,
        (Host, "resume"): resumed,
        (Host, "may_answer"): may_answer,
    }


def _lease_read_before_the_flush() -> Plant:
    """The lease is looked at when a record is appended, and not again when it is flushed and committed."""

    def is_answerable(_host: Host, member: RaftMember, record: Record) -> bool:
        return member.log.commit >= record.end

    return {(Host, "is_answerable"): is_answerable}


def _two_members_changed_at_once() -> Plant:
    def change(member: RaftMember, membership: Membership) -> None:
        if member.may_append and member.has_begun:
            member._write_record(membership)

    return {(RaftMember, "change"): change}


def _vote_after_an_unclean_boot() -> Plant:
    def hard_state(host: Host) -> HardState:
        hard = host.disk.files.hard
        return hard._replace(run=hard.run + 1)

    return {(Host, "_hard_state"): hard_state}


def _queue_offsets_kept_over_a_promotion() -> Plant:
    """A member that has led before gives out the queue offsets that it would have given out next then."""
    count_queues = Host.count_queues

    def count_once(host: Host) -> None:
        if not host.queues:
            count_queues(host)

    return {(Host, "count_queues"): count_once}


def _tables_before_the_truncation() -> Plant:
    """Truncations are not flushed, so that cut bytes come back after a power cut, behind new rows of terms."""
    flush_log = Disk.flush_log

    def flush_some(disk: Disk, end: int | None = None) -> None:
        if end is not None:
            flush_log(disk, end)

    return {(Disk, "flush_log"): flush_some}


PLANTED: dict[str, Callable[[], Plant]] = {
    "vote not flushed": _vote_not_flushed,
    "answer before the majority": _answer_before_the_majority,
    "commit of an old term": _commit_of_an_old_term,
    "length compared before term": _length_compared_before_term,
    "truncation below the commit": _truncation_below_the_commit,
    "lease on a clock that stops in a pause": _lease_on_a_clock_that_stops_in_a_pause,
    "lease read before the flush": _lease_read_before_the_flush,
    "two members changed at once": _two_members_changed_at_once,
    "vote after an unclean boot": _vote_after_an_unclean_boot,
    "queue offsets kept over a promotion": _queue_offsets_kept_over_a_promotion,
    "tables before the truncation": _tables_before_the_truncation,
}

# A scene and a seed that find each; others find them as well.
FOUND_BY: tuple[tuple[str, str, int], ...] = (
    ("vote not flushed", "storm", 18),
    ("answer before the majority", "storm", 1),
    ("commit of an old term", "dledger_4_old_term", 1),
    ("length compared before term", "storm", 9),
    ("truncation below the commit", "storm", 1),
    ("lease on a clock that stops in a pause", "storm", 205),
    ("lease read before the flush", "storm", 176),
    ("two members changed at once", "change_while_divided", 1),
    ("vote after an unclean boot", "storm", 19),
    ("queue offsets kept over a promotion", "storm", 2),
    ("tables before the truncation", "storm", 10),
)


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug."""
    with ExitStack() as stack:
        for (owner, attribute), bug in PLANTED[name]().items():
            stack.enter_context(patch.object(owner, attribute, bug))
        yield


def first_seed(name: str, scene: Callable[[int], object], seeds: range) -> int | None:
    """Return the first of these seeds with which a scene finds a planted bug; None if none does."""
    for seed in seeds:
        try:
            with planted(name):
                scene(seed)
        except AssertionError:
            return seed
    return None
