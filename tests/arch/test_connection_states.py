"""The states of a connection are one table, and its page shows that table."""

import re

import pytest

from cometmq.kernel.turn_reads import PeerState
from cometmq.net import peer
from tests.arch.test_compatibility import ROOT

PAGE = (ROOT / "docs/design/0037-a-turn-is-a-batch.md").read_text()
EVENTS = (
    "MORE_CAME", "SOME_LEFT", "ALL_HANDLED", "ANSWERS_PILE_UP", "ANSWERS_LEFT", "CLOSE", "LOST",
)  # fmt: skip


def rows() -> dict[str, list[str]]:
    found = re.findall(r"^\| `([A-Z_]+)`:[^|]*\|(.*)\|$", PAGE, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in found}


@pytest.mark.parametrize("event", EVENTS)
def test_the_page_shows_what_an_event_makes_of_each_state(event):
    assert rows()[event] == [PeerState(after).name for after in getattr(peer, event)]


def test_no_event_of_the_page_is_another_one_and_the_dead_stay_dead():
    assert tuple(rows()) == EVENTS
    for event in EVENTS:
        after = getattr(peer, event)
        assert after[PeerState.CLOSED] == PeerState.CLOSED
        assert after[PeerState.CLOSING] >= PeerState.CLOSING
