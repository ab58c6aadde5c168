"""Whose a dead letter is, and when it counts as sent: the order of a ledger's entries decides."""

from __future__ import annotations

import pytest

from cometmq.client.admin.replay_ledger import (
    LEASE_MS,
    Claim,
    ClaimEnd,
    Entry,
    LetterId,
    Renewal,
    ReplayLedger,
    decode_entry,
    encode_entry,
    places_of,
)
from cometmq.errors import CodecError

A, B, C = (LetterId("broker-a", 0, offset, 1_000 + offset) for offset in range(3))


def ledger(*entries: tuple[Entry, int], only: set[LetterId] | None = None) -> ReplayLedger:
    made = ReplayLedger(only)
    for entry, stored_ms in entries:
        made.take(entry, stored_ms)
    return made


def test_a_claim_that_is_done_is_sent_but_for_what_it_leaves_out() -> None:
    claim = Claim("x", 0, (A, B, C))
    state = ledger((claim, 0), (ClaimEnd("x", 0, unsent=(1,), unsure=(2,)), 5))
    assert set(state.done) == {A}
    assert state.free_at(B) == 0
    assert state.free_at(C) == LEASE_MS


def test_of_two_claims_the_first_in_the_log_has_a_letter() -> None:
    first, second = Claim("x", 0, (A, B)), Claim("y", 0, (B, C))
    state = ledger((first, 0), (second, 1))
    assert state.won(first) == {A: False, B: False}
    assert state.won(second) == {C: False}
    state.take(ClaimEnd("y", 0), 2)
    assert set(state.done) == {C}, "what it did not get it cannot have sent"


def test_a_lease_that_is_over_is_another_runs_and_says_that_it_may_be_sent() -> None:
    first, early, late = Claim("x", 0, (A,)), Claim("y", 0, (A,)), Claim("y", 1, (A,))
    state = ledger((first, 0), (early, LEASE_MS - 1), (late, LEASE_MS))
    assert state.won(early) == {}
    assert state.won(late) == {A: True}
    state.take(ClaimEnd("x", 0), LEASE_MS + 1)
    assert set(state.done) == set(), "who is late does not decide any more"
    state.take(ClaimEnd("y", 1), LEASE_MS + 2)
    assert set(state.done) == {A}


def test_nobody_wins_what_is_done() -> None:
    claim, again = Claim("x", 0, (A,)), Claim("y", 0, (A,))
    state = ledger((claim, 0), (ClaimEnd("x", 0), 1), (again, 10 * LEASE_MS))
    assert state.won(again) == {}


def test_a_topic_that_begins_anew_has_other_letters() -> None:
    state = ledger((Claim("x", 0, (A,)), 0), (ClaimEnd("x", 0), 1))
    assert A._replace(stored_ms=9_000) not in state.done


def test_a_renewed_claim_is_nobody_elses_for_another_lease() -> None:
    first, early, late = Claim("x", 0, (A, B)), Claim("y", 0, (A,)), Claim("y", 1, (A,))
    renewed = ledger((first, 0), (Renewal("x", (0,)), LEASE_MS - 1), (early, LEASE_MS))
    assert renewed.won(early) == {}
    assert renewed.free_at(A) == 2 * LEASE_MS - 1
    renewed.take(late, 2 * LEASE_MS - 1)
    assert renewed.won(late) == {A: True}
    renewed.take(Renewal("x", (0, 7)), 2 * LEASE_MS)
    assert renewed.won(late) == {A: True}, "what another run took over is not renewed"
    assert renewed.won(first) == {B: False}


def test_a_run_that_comes_again_has_its_letters_at_once() -> None:
    first, again, other = Claim("x", 0, (A, B)), Claim("x", 0, (A, B)), Claim("y", 0, (A,))
    state = ledger((first, 0), (ClaimEnd("x", 0, unsure=(0, 1)), 1))
    assert (state.free_at(A, "x"), state.free_at(A, "y")) == (0, LEASE_MS)
    state.take(again, 2)
    state.take(other, LEASE_MS)
    assert state.won(again) == {A: False, B: False}
    state.take(ClaimEnd("x", 0), LEASE_MS + 1)
    assert state.done == {A: "x", B: "x"}


def test_what_a_run_found_sent_is_not_said_to_be_its_own() -> None:
    state = ledger((Claim("x", 0, (A, B)), 0), (ClaimEnd("x", 0, before=(1,)), 1))
    assert state.done == {A: "x", B: ""}


def test_who_asks_of_one_letter_is_told_of_no_other() -> None:
    claim = Claim("x", 0, (A, B, C))
    state = ledger((claim, 0), (ClaimEnd("x", 0, unsent=(0,), unsure=(1,)), 1), only={C})
    assert set(state.done) == {C}, "places are those of the whole claim"
    assert (state.free_at(A), state.free_at(B)) == (0, 0)


@pytest.mark.parametrize(
    "entry",
    [
        Claim("x", 3, (A, C)),
        ClaimEnd("x", 3, (0,), (1, 2)),
        ClaimEnd("x", 3, before=(1,)),
        Renewal("x", (0, 4)),
    ],
)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


@pytest.mark.parametrize(
    "content",
    [
        b"", b"hello", b"[]", b'{"run": "x"}', b'{"run": "x", "number": 1, "claims": 5}',
        b'{"run": "x", "number": 1, "claims": [["a", 1]]}', b'{"run": "x", "number": 1, "unsent": ["a"]}',
        b'{"run": "x", "renews": 1}', b'{"run": "x", "renews": ["a"]}', b'{"renews": [1]}',
    ],
)  # fmt: skip
def test_what_is_no_entry_is_refused(content: bytes) -> None:
    with pytest.raises(CodecError):
        decode_entry(content)


def test_places_are_those_of_the_list() -> None:
    assert places_of((A, B, C), [C, A]) == (0, 2)
