"""Members of consumer groups that contradict each other: body of GET_GROUP_CONFLICTS, a request of our own.

docs/format/own-requests.md draws it.
"""

from collections.abc import Iterable
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.frozen import dataclass

SUBSCRIPTION, CLIENT_ID = "SUBSCRIPTION", "CLIENT_ID"


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """Members that say the same.

    Attributes:
        clients: who, "client id@ip:port" each.
        says: what, for people: the message model and what is wanted of each topic.
    """

    clients: tuple[str, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A group whose members do not agree.

    Attributes:
        group: the consumer group.
        kind: SUBSCRIPTION, or CLIENT_ID: one id for several clients.
        sides: all of them.
    """

    group: str
    kind: str
    sides: tuple[ConflictSide, ...]


def encode_conflicts(conflicts: Iterable[Conflict]) -> bytes:
    """The body."""
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
    """The conflicts in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
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
