"""Strategies that assign the queues of a topic to the members of a group (AllocateMessageQueueStrategy).

With clustering, unless brokers assign the queues, each member computes its own from those of the topic and mostly the
ids of all members. So all members of a group must use the same strategy. The strategies here follow Java's classes.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence

from cometmq.model.errors import SettingsError
from cometmq.model.queue import MessageQueue
from cometmq.model.shares import allocate_averagely, allocate_in_circle

__all__ = [
    "Allocation",
    "ConsistentHash",
    "FixedQueues",
    "MachineRooms",
    "NearbyRoom",
    "allocate_averagely",
    "allocate_in_circle",
]

# Arguments: the queues of one topic, the ids of all members, and the member's own id.
Allocation = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]

VIRTUAL_NODES = 10  # Of AllocateMessageQueueConsistentHash.
_ROOM_SEPARATOR = "@"


class ConsistentHash:
    """A strategy that assigns each queue to the member whose hash follows the queue's hash on a ring.

    Few queues move when members join or leave (AllocateMessageQueueConsistentHash). `virtual_nodes` is the number of
    positions of each member on the ring; more make the assignment more even, less than 1 raises SettingsError.
    """

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        if virtual_nodes < 1:
            raise SettingsError(f"virtual_nodes={virtual_nodes}: a member needs at least one")
        self._virtual_nodes = virtual_nodes

    def __call__(
        self, queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
    ) -> list[MessageQueue]:
        """Return the queues of the member `own_id` among the members `client_ids`."""
        ring = {
            _md5_start(f"{member}-{number}"): member
            for member in sorted(client_ids)
            for number in range(self._virtual_nodes)
        }
        places = sorted(ring)
        return [
            queue
            for queue in sorted(queues)
            if ring[places[bisect_left(places, _md5_start(_java_text(queue))) % len(places)]]
            == own_id
        ]


class FixedQueues:
    """A strategy that assigns those queues of a topic that are in a fixed list (AllocateMessageQueueByConfig)."""

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)

    def __call__(
        self, queues: Sequence[MessageQueue], _client_ids: Sequence[str], _own_id: str
    ) -> list[MessageQueue]:
        """Return those of `queues` that are in the strategy's list, sorted."""
        return [queue for queue in sorted(queues) if queue in self._queues]


class MachineRooms:
    """A strategy that shares the queues of brokers named `room@name` in certain rooms; other queues get no member.

    Follows AllocateMessageQueueByMachineRoom.
    """

    def __init__(self, rooms: Collection[str]) -> None:
        self._rooms = frozenset(rooms)

    def __call__(
        self, queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
    ) -> list[MessageQueue]:
        """Return a member's equal share of the configured rooms' queues, maybe plus one left over; [] if no member."""
        members = sorted(client_ids)
        if own_id not in members:
            return []
        near = [queue for queue in sorted(queues) if _room_of(queue.broker_name) in self._rooms]
        place = members.index(own_id)
        share, rest = divmod(len(near), len(members))
        block = near[place * share : (place + 1) * share]
        return (
            block + near[share * len(members) :][place : place + 1] if place < rest else block
        )


class NearbyRoom:
    """A strategy that assigns queues to members in the same room, and queues of a room without members to all members.

    Follows AllocateMachineRoomNearby. `within` is the strategy that divides a room's queues; the functions return the
    room of a queue's broker and of a client id.
    """

    def __init__(
        self,
        room_of_queue: Callable[[MessageQueue], str],
        room_of_client: Callable[[str], str],
        within: Allocation = allocate_averagely,
    ) -> None:
        self._room_of_queue = room_of_queue
        self._room_of_client = room_of_client
        self._within = within

    def __call__(
        self, queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
    ) -> list[MessageQueue]:
        """Return a member's share of the queues in its room and in rooms without members; [] if not in `client_ids`."""
        if own_id not in client_ids:
            return []
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in sorted(queues):
            queues_in.setdefault(self._room_of_queue(queue), []).append(queue)
        members_in: dict[str, list[str]] = {}
        for member in sorted(client_ids):
            members_in.setdefault(self._room_of_client(member), []).append(member)
        own_room = self._room_of_client(own_id)
        share = self._within(queues_in.pop(own_room, []), members_in[own_room], own_id)
        for room in sorted(queues_in.keys() - members_in.keys()):
            share = [*share, *self._within(queues_in[room], client_ids, own_id)]
        return share


def _room_of(broker_name: str) -> str | None:
    room, separator, name = broker_name.partition(_ROOM_SEPARATOR)
    return room if separator and name and _ROOM_SEPARATOR not in name else None


def _java_text(queue: MessageQueue) -> str:
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _md5_start(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])
