"""The replayed dead letters of a group: a log of claims in one queue, whose order all runs agree on.

A run claims letters before it sends them, and says afterwards which of them it sent. The log decides whose a letter is:
the first claim that reached it, until that is done or its lease is over. Then another run may claim it, and must look
whether the first one sent it before it died. A run that needs longer renews its claims. Nothing here asks or sends (docs/design/0055).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.errors import CodecError

# A claim is another's to take when it is so old and not done, by the clock of the ledger's broker.
LEASE_MS = 20_000


class LetterId(NamedTuple):
    """The identity of a dead letter: its place, and its store time, since places begin anew with their topic.

    Attributes:
        broker_name: of its queue.
        queue_id: of its queue.
        offset: in its queue.
        stored_ms: when it died.
    """

    broker_name: str
    queue_id: int
    offset: int
    stored_ms: int


@dataclass(frozen=True, slots=True)
class Claim:
    """An entry by which a run claims letters.

    Attributes:
        run: its id.
        number: of its claim, from 0.
        letters: which.
    """

    run: str
    number: int
    letters: tuple[LetterId, ...]


@dataclass(frozen=True, slots=True)
class Renewal:
    """An entry by which a run renews claims whose lease would be over.

    Attributes:
        run: whose.
        numbers: of the claims.
    """

    run: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClaimEnd:
    """The outcome of a claim, written after its letters were sent.

    Attributes:
        run: whose.
        number: of the claim.
        unsent: places in its list that were surely not sent: they are anybody's again.
        unsure: places in its list of which nobody knows: they stay claimed until the lease is over.
        before: places in its list that another run had sent.
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
    is_inherited: bool  # Somebody claimed it before and may have sent it.


class ReplayLedger:
    """The state of a ledger, made of its entries in their order.

    Attributes:
        done: letters that were sent, each with the run that sent it, as far as that is known.
    """

    def __init__(self, only: Collection[LetterId] | None = None) -> None:
        """Keep all letters, or only these: who asks of a few keeps nothing of a hundred thousand."""
        self.done: dict[LetterId, str] = {}
        self._only = None if only is None else frozenset(only)
        self._held: dict[LetterId, _HeldClaim] = {}
        # With the place of each letter in its claim.
        self._claims: dict[tuple[str, int], list[tuple[int, LetterId]]] = {}

    def take(self, entry: Entry, stored_ms: int) -> None:
        """Take in one more entry, with the time at which the broker stored it."""
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
            # Of its own letters a run knows what it sent; of another's nobody does.
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
        """The letters that a claim got, and whether somebody may have sent one of them before."""
        found = {}
        for letter in claim.letters:
            held = self._held.get(letter)
            if held is not None and (held.run, held.number) == (claim.run, claim.number):
                found[letter] = held.is_inherited
        return found

    def free_at(self, letter: LetterId, run: str = "") -> int:
        """The earliest time at which this run can claim a letter, ms by the ledger broker's clock; 0: at once."""
        held = self._held.get(letter)
        return 0 if held is None or held.run == run else held.claimed_ms + LEASE_MS


def _is_free(held: _HeldClaim, claim: Claim, stored_ms: int) -> bool:
    return held.run == claim.run or stored_ms - held.claimed_ms >= LEASE_MS


def encode_entry(entry: Entry) -> bytes:
    """Encode an entry as the body of a message."""
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
    """Decode the entry in the body of a message.

    Raises:
        CodecError: it is none.
    """
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
    raise CodecError(f"an entry of a replay ledger claims {value!r:.60}, which is no letter")


def _places(value: Any) -> tuple[int, ...]:
    if not all(isinstance(place, int) for place in _list(value or [])):
        raise CodecError(f"an entry of a replay ledger has {value!r:.60}, which are no places")
    return tuple(_list(value or []))


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise CodecError(f"an entry of a replay ledger has {value!r:.60}, which is no list")
    return value


def places_of(letters: Sequence[LetterId], some: Iterable[LetterId]) -> tuple[int, ...]:
    """The indexes of some letters in a list."""
    wanted = set(some)
    return tuple(place for place, letter in enumerate(letters) if letter in wanted)
