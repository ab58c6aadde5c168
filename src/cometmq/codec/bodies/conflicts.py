"""Conflicts between members of consumer groups: the answer to GET_GROUP_CONFLICTS, a request of CometMQ.

The format is described in docs/format/own-requests.md.
"""

from collections.abc import Iterable
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.frozen import dataclass

SUBSCRIPTION, CLIENT_ID = "SUBSCRIPTION", "CLIENT_ID"


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """One side of a conflict in a group: members with equal model and subscriptions, or a client whose id others use.

    Attributes:
        clients: The members, "client id@ip:port" each.
        says: Text that describes their message model and subscriptions.
    """

    clients: tuple[str, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A contradiction between members of a consumer group.

    Attributes:
        kind: SUBSCRIPTION, or CLIENT_ID if several clients use the same id.
        sides: All conflicting sides.
    """

    group: str
    kind: str
    sides: tuple[ConflictSide, ...]


def encode_conflicts(conflicts: Iterable[Conflict]) -> bytes:
    """Encode the JSON body of the answer to GET_GROUP_CONFLICTS."""
    return fastjson.dumps({"conflicts": [_conflict_json(conflict) for conflict in conflicts]})


def _conflict_json(conflict: Conflict) -> dict[str, Any]:
    return {
        "consumerGroup": conflict.group,
        "kind": conflict.kind,
        "sides": [
            {"clients": list(side.clients), "says": side.says} for side in conflict.sides
        ],
    }


def decode_conflicts(content: bytes | str) -> tuple[Conflict, ...]:
    """Decode the body of the answer to GET_GROUP_CONFLICTS. Raises CodecError if it is malformed."""
    return tuple(
        Conflict(
            part.text("consumerGroup"),
            part.text("kind"),
            tuple(
                ConflictSide(tuple(side.texts("clients")), side.text("says"))
                for side in part.objects("sides")
            ),
        )
        for part in load_object(content, "group conflicts").objects("conflicts")
    )
