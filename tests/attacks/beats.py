"""Heartbeats of made-up clients, and what a nameserver or a store knows of it."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.attacks.stranger import Stranger

HEART_BEAT = 34
GET_ROUTE = 105


def consumer(group: str, topics: Sequence[str] = (), expression: str = "*") -> dict[str, Any]:
    """One consumer group of a heartbeat, as an official client describes it."""
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [
            {"topic": topic, "subString": expression, "subVersion": 1, "expressionType": "TAG"}
            for topic in topics
        ],
        "unitMode": False,
    }


def heartbeat(client_id: str, consumers: Iterable[dict[str, Any]]) -> bytes:
    """The body of a heartbeat, without a blank."""
    beat = {"clientID": client_id, "consumerDataSet": list(consumers), "producerDataSet": []}
    return json.dumps(beat, separators=(",", ":")).encode()


def knows_route(nameserver: str, topic: str) -> bool:
    """Whether a nameserver has a route for a topic."""
    with Stranger(nameserver) as peer:
        return peer.ask(GET_ROUTE, {"topic": topic}).code == 0


def kept(folder: Path, name: str) -> dict[str, Any]:
    """A file of a broker's folder config."""
    found = json.loads((folder / "store/config" / name).read_text())
    assert isinstance(found, dict)
    return found
