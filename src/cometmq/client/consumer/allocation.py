"""Strategies that share the queues of a topic among the members of a group; each member computes the same answer.

All members see the same sorted queues and the same sorted client ids, so no one needs to be asked.
An allocation is a function of both and one's own id; members of a group must have the same one, of
whatever language they are: these give what the Java classes of the same names give.

| here | class of RocketMQ 5.3.3 | shares |
| --- | --- | --- |
| `allocate_averagely` | AllocateMessageQueueAveragely | blocks of queues, equal to one |
| `allocate_in_circle` | AllocateMessageQueueAveragelyByCircle | dealt like cards |
| `ConsistentHash` | AllocateMessageQueueConsistentHash | few queues move when members come and go |
| `FixedQueues` | AllocateMessageQueueByConfig | what you say |
| `MachineRooms` | AllocateMessageQueueByMachineRoom | brokers of some rooms (`room@broker`) only |
| `NearbyRoom` | AllocateMachineRoomNearby | members take queues of their own room |
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

# Given the queues of one topic, the ids of all members, and one's own id.
Allocation = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]

VIRTUAL_NODES = 10  # Of AllocateMessageQueueConsistentHash.
_ROOM_SEPARATOR = "@"


class ConsistentHash:
    """A strategy that gives a queue to the member that follows its hash on a ring.

    Args:
        virtual_nodes: places of each member on the ring; more make shares more even.

    Raises:
        SettingsError: there would be none.
    """

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        if virtual_nodes < 1:
            raise SettingsError(f"virtual_nodes={virtual_nodes}: a member needs one at least")
        self._virtual_nodes = virtual_nodes

    def __call__(
        self, queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
    ) -> list[MessageQueue]:
        """The share of a member; arguments as `allocate_averagely`."""
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
    """A strategy that always takes the given queues; nobody checks that each queue is taken by somebody."""

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        """Take `queues` of any topics."""
        self._queues = frozenset(queues)

    def __call__(
        self, queues: Sequence[MessageQueue], _client_ids: Sequence[str], _own_id: str
    ) -> list[MessageQueue]:
        """The given queues that exist in this topic."""
        return [queue for queue in sorted(queues) if queue in self._queues]


class MachineRooms:
    """A strategy that takes only queues of brokers in certain rooms, a broker being called `room@name`."""

    def __init__(self, rooms: Collection[str]) -> None:
        """Take queues of brokers in these `rooms`."""
        self._rooms = frozenset(rooms)

    def __call__(
        self, queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
    ) -> list[MessageQueue]:
        """A block of the rooms' queues, and one of the rest; arguments as `allocate_averagely`."""
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
    """A strategy that gives members queues of their own room; those of a room without members are for all.

    Args:
        room_of_queue: where a queue's broker stands.
        room_of_client: where the member with this id stands.
        within: how queues are shared by those who share them.
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
        """The share of a member; arguments as `allocate_averagely`."""
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
    """MessageQueue.toString() of Java, whose hash decides."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _md5_start(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])
