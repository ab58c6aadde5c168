"""What must hold of a group of real brokers, whatever happens to them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from cometmq.store.message_store import MessageStore

# What a leader told so many looks ago, a second each, it has in the log, where it writes commits once a second.
KEPT_LOOKS = 3


class BrokerChecks:
    """Everything that the members of a group were seen to do, and what their clients were told.

    Attributes:
        acknowledged_count: Number of messages that clients were told to be safe.
        leaders: Leader of each term.
        failures: What must not happen, seen where an assertion would be lost.
    """

    def __init__(self) -> None:
        self.leaders: dict[int, str] = {}
        self.failures: list[str] = []
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        self._consumed: dict[tuple[int, int], bytes] = {}
        self._commits: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._kept_commits: Counter[int] = Counter()
        self._last: dict[tuple[int, int], int] = {}
        self._log = bytearray()  # All that any member has held for committed.
        self._seen: dict[str, int] = {}
        self._wanted: set[bytes] = set()
        self._unwanted: set[bytes] = set()
        self._delivered: set[bytes] = set()
        self._reached: dict[tuple[str, int], int] = {}
        self._calls: dict[int, str] = {}

    @property
    def acknowledged_count(self) -> int:
        """Number of messages that clients were told to be safe."""
        return len(self._acknowledged)

    def leads(self, member: str, term: int) -> bool:
        """Note that a member leads a term: nobody else may. Return whether the term is new."""
        is_new = term not in self.leaders
        other = self.leaders.setdefault(term, member)
        assert other == member, f"{other} and {member} lead term {term}"
        return is_new

    def restarted(self, member: str) -> None:
        """Look at all of a member's log again."""
        self._seen.pop(member, None)

    def committed(self, member: str, commit: int, store: MessageStore) -> None:
        """Compare what a member holds for committed with what others do: all have the same bytes, for ever."""
        seen = self._seen.get(member, 0)
        while seen < commit:
            piece = bytes(store.read_log(seen, commit - seen) or b"")
            assert piece, f"{member} has committed {commit}, and its log ends at {seen}"
            known = self._log[seen : seen + len(piece)]
            assert piece.startswith(known), f"{member} has other bytes than others after {seen}"
            self._log += piece[len(known) :]
            seen += len(piece)
        self._seen[member] = seen

    def acknowledged(self, sender: int, queue: int, offset: int, body: bytes) -> None:
        """Note the result of a send: no other has its place, and it is behind what the sender had acknowledged before."""
        other = self._acknowledged.setdefault((queue, offset), body)
        if other is not body:
            self.failures.append(
                f"{body!r} and {other!r} have offset {offset} of queue {queue}"
            )
        if offset <= self._last.get((sender, queue), -1):
            self.failures.append(f"{body!r} is before what was sent before it")
        self._last[sender, queue] = offset

    def consumed(self, queue: int, offset: int, body: bytes) -> None:
        """Note what a consumer got, maybe for a second time."""
        if self._consumed.setdefault((queue, offset), body) != body:
            self.failures.append(
                f"consumers got two messages of offset {offset} of queue {queue}"
            )

    def commit_seen(self, queue: int, offset: int, term: int | None) -> None:
        """Note the committed offset of a queue that a broker told: what a leader told for some seconds is kept.

        `term` is that of the leader; None if there was none, so that maybe another broker told it.
        """
        kept = self._kept_commits[queue]
        if offset < kept:
            self.failures.append(f"queue {queue} had {kept} committed, and has {offset}")
        if term is not None:
            told = self._commits[queue, term]
            told.append(offset)
            self._kept_commits[queue] = max(kept, *told[:-KEPT_LOOKS], 0)

    def holds_all(self, found: dict[tuple[int, int], bytes]) -> None:
        """Check that everything acknowledged is at its place in the queues, and that consumers got all of it."""
        assert not self.failures, self.failures
        for place, body in self._acknowledged.items():
            assert found.get(place) == body, f"{body!r} was acknowledged and is not at {place}"
        lost = found.keys() - self._consumed.keys()
        assert not lost, f"consumers did not get {sorted(lost)[:5]} of {len(found)}"

    # --- transactions, delays and order

    def decided(self, body: bytes, *, is_wanted: bool) -> None:
        """Note a message that must be delivered at last, or never: one of a transaction, or a delayed one."""
        (self._wanted if is_wanted else self._unwanted).add(body)

    def delivered(self, body: bytes) -> None:
        """Note that a consumer got such a message."""
        self._delivered.add(body)
        if body in self._unwanted:
            self.failures.append(f"consumers got {body!r}, which was rolled back")

    def consumed_in_order(self, group: str, queue: int, offset: int) -> None:
        """Note what a group that consumes in order got: it may get messages again, but passes over none."""
        reached = self._reached.get((group, queue), -1)
        if offset > reached + 1:
            self.failures.append(f"{group} got {offset} of queue {queue} after {reached}")
        self._reached[group, queue] = max(reached, offset)

    def call_begins(self, consumer: str, queue: int) -> None:
        """Note that a consumer begins to work on a message of a queue that it has locked: nobody else does."""
        other = self._calls.get(queue)
        if other is not None:
            self.failures.append(f"{consumer} and {other} work on queue {queue} at a time")
        self._calls[queue] = consumer

    def call_ends(self, consumer: str, queue: int) -> None:
        """Note that a consumer has done its work."""
        if self._calls.get(queue) == consumer:
            del self._calls[queue]

    def missing(self, groups: Iterable[str], ends: Mapping[int, int]) -> list[str]:
        """Return what consumers must get that they have not got yet; `ends` are those of the queues that are read in order."""
        late = [
            f"{group}: queue {queue} from {reached + 1} on"
            for group in groups
            for queue, end in ends.items()
            if (reached := self._reached.get((group, queue), -1)) < end - 1
        ]
        return [*late, *map(str, sorted(self._wanted - self._delivered))]
