"""Conflicts between members of consumer groups: the answer to GET_GROUP_CONFLICTS, a request of CometMQ.

The format is described in docs/format/own-requests.md.
"""

from collections.abc import Iterable

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.members import JsonMember, JsonMembers
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


_SIDE = JsonMembers(
    ConflictSide,
    JsonMember("clients", "clients", JsonObject.texts),
    JsonMember("says", "says", JsonObject.text),
)
_CONFLICT = JsonMembers(
    Conflict,
    JsonMember("consumerGroup", "group", JsonObject.text),
    JsonMember("kind", "kind", JsonObject.text),
    JsonMember("sides", "sides", _SIDE.all_of, write=_SIDE.list_of),
)


def encode_conflicts(conflicts: Iterable[Conflict]) -> bytes:
    """Encode the JSON body of the answer to GET_GROUP_CONFLICTS."""
    return fastjson.dumps({"conflicts": _CONFLICT.list_of(conflicts)})


def decode_conflicts(content: bytes | str) -> tuple[Conflict, ...]:
    """Decode the body of the answer to GET_GROUP_CONFLICTS. Raises CodecError if it is malformed."""
    return _CONFLICT.all_of(load_object(content, "group conflicts"), "conflicts")
