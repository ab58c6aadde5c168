"""The replay ledger of a group: a log of claims on dead letters, in one queue, so that all runs see the same order.

A run claims dead letters before it first sends them, and records afterwards which ones it sent. The first claim keeps
other runs from a dead letter until a clear outcome is recorded or the lease expires. Unless it was recorded as sent,
another run may then claim it; after an expiry that run must check whether the first one sent it. A run can renew its
claims (docs/design/0055).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.errors import CodecError
from cometmq.model.text import as_given

# Age at which a claim that has not ended expires, by the clock of the ledger's broker.
LEASE_MS = 20_000


class LetterId(NamedTuple):
    """The identity of a dead letter: its place, and its store time, because places repeat when a topic is recreated.

    Attributes:
        broker_name: Broker of its queue.
        queue_id: Id of its queue.
        offset: Offset in its queue.
        stored_ms: Time when it became a dead letter, ms since 1970.
    """

    broker_name: str
    queue_id: int
    offset: int
    stored_ms: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A ledger entry by which a run claims dead letters (`letters`); `number` identifies it among the run's open claims."""

    run: str
    number: int
    letters: tuple[LetterId, ...]


@dataclass(frozen=True, slots=True)
class Renewal:
    """A ledger entry by which a run renews the leases of its claims, given by their numbers."""

    run: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClaimEnd:
    """The ledger entry with the outcome of a claim; letters that it does not list count as sent.

    Attributes:
        unsent: Indexes of dead letters that were certainly not sent: any run may claim them.
        unsure: Indexes of dead letters whose outcome is unknown: they stay claimed until the lease expires.
        before: Indexes of dead letters that the run found sent by another one.
    """

    run: str
    number: int
    unsent: tuple[int, ...] = ()
    unsure: tuple[int, ...] = ()
    before: tuple[int, ...] = ()


Entry = Claim | Renewal | ClaimEnd


class _HeldClaim(NamedTuple):
    run: str
    number: int
    claimed_ms: int
    is_inherited: bool  # Another run claimed it before and may have sent it.


class ReplayLedger:
    """The state of a replay ledger after its entries, which are added in order.

    Attributes:
        done: Dead letters that were sent, each with the run that recorded it, or "" if that run found it sent by another.
    """

    def __init__(self, only: Collection[LetterId] | None = None) -> None:
        """Keep the state of all dead letters, or only of `only`, to save memory."""
        self.done: dict[LetterId, str] = {}
        self._only = None if only is None else frozenset(only)
        self._held: dict[LetterId, _HeldClaim] = {}
        # With the index of each letter in its claim.
        self._claims: dict[tuple[str, int], list[tuple[int, LetterId]]] = {}

    def take(self, entry: Entry, stored_ms: int) -> None:
        """Apply the next entry of the ledger; `stored_ms` is the time at which the broker stored it."""
        if isinstance(entry, Claim):
            self._claim(entry, stored_ms)
        elif isinstance(entry, Renewal):
            self._renew(entry, stored_ms)
        else:
            self._end(entry)

    def _claim(self, claim: Claim, stored_ms: int) -> None:
        only = self._only
        letters = [
            (place, letter)
            for place, letter in enumerate(claim.letters)
            if only is None or letter in only
        ]
        if letters:
            self._claims[claim.run, claim.number] = letters
        for _, letter in letters:
            held = self._held.get(letter)
            if letter in self.done or (
                held is not None and not _is_free(held, claim, stored_ms)
            ):
                continue
            # A run knows what it sent of its own letters; it does not know what another run sent.
            is_inherited = held is not None and (held.is_inherited or held.run != claim.run)
            self._held[letter] = _HeldClaim(claim.run, claim.number, stored_ms, is_inherited)

    def _renew(self, renewal: Renewal, stored_ms: int) -> None:
        for number in renewal.numbers:
            for _, letter in self._claims.get((renewal.run, number), ()):
                held = self._held.get(letter)
                if held is not None and (held.run, held.number) == (renewal.run, number):
                    self._held[letter] = held._replace(claimed_ms=stored_ms)

    def _end(self, done: ClaimEnd) -> None:
        letters = self._claims.pop((done.run, done.number), ())
        unsent, unsure, before = set(done.unsent), set(done.unsure), set(done.before)
        for place, letter in letters:
            held = self._held.get(letter)
            if held is None or (held.run, held.number) != (done.run, done.number):
                continue
            if place in unsent:
                del self._held[letter]
            elif place not in unsure:
                del self._held[letter]
                self.done[letter] = "" if place in before else done.run

    def won(self, claim: Claim) -> dict[LetterId, bool]:
        """Return the dead letters that a claim holds now, and for each whether another run may have sent it before."""
        found = {}
        for letter in claim.letters:
            held = self._held.get(letter)
            if held is not None and (held.run, held.number) == (claim.run, claim.number):
                found[letter] = held.is_inherited
        return found

    def free_at(self, letter: LetterId, run: str = "") -> int:
        """Return when another run's claim on a dead letter expires, ms by the ledger broker's clock; 0 if none holds it."""
        held = self._held.get(letter)
        return 0 if held is None or held.run == run else held.claimed_ms + LEASE_MS


def _is_free(held: _HeldClaim, claim: Claim, stored_ms: int) -> bool:
    return held.run == claim.run or stored_ms - held.claimed_ms >= LEASE_MS


def encode_entry(entry: Entry) -> bytes:
    """Encode an entry of a replay ledger as the body of a message."""
    if isinstance(entry, Renewal):
        return fastjson.dumps({"run": entry.run, "renews": list(entry.numbers)})
    values: dict[str, Any] = {"run": entry.run, "number": entry.number}
    if isinstance(entry, Claim):
        values["claims"] = [list(letter) for letter in entry.letters]
    else:
        values["unsent"], values["unsure"] = list(entry.unsent), list(entry.unsure)
        if entry.before:
            values["before"] = list(entry.before)
    return fastjson.dumps(values)


def decode_entry(content: bytes) -> Entry:
    """Decode the entry in the body of a message; raise CodecError if it is no entry of a replay ledger."""
    body = load_object(content, "an entry of a replay ledger")
    run, values = body.text("run"), body.raw()
    if "renews" in values:
        return Renewal(run, _places(values["renews"]))
    number = body.int64("number")
    if "claims" in values:
        return Claim(run, number, tuple(map(_letter, _list(values["claims"]))))
    lists = [_places(values.get(key)) for key in ("unsent", "unsure", "before")]
    return ClaimEnd(run, number, *lists)


def _letter(value: Any) -> LetterId:
    match value:
        case [str(broker), int(queue), int(offset), int(stored)]:
            return LetterId(broker, queue, offset, stored)
    raise CodecError(
        f"an entry of a replay ledger reserves {as_given(value, 60)}, which is not the place of a dead letter"
    )


def _places(value: Any) -> tuple[int, ...]:
    if not all(isinstance(place, int) for place in _list(value or [])):
        raise CodecError(
            f"an entry of a replay ledger has {as_given(value, 60)}, which are not indexes of dead letters"
        )
    return tuple(_list(value or []))


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise CodecError(
            f"an entry of a replay ledger has {as_given(value, 60)}, which is not a list"
        )
    return value


def places_of(letters: Sequence[LetterId], some: Iterable[LetterId]) -> tuple[int, ...]:
    """Return the indexes of the dead letters `some` in `letters`, the list of a claim, for its `ClaimEnd`."""
    wanted = set(some)
    return tuple(place for place, letter in enumerate(letters) if letter in wanted)
