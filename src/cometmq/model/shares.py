"""Shares the queues of a topic out among the members of a group.

All who work it out see the same sorted queues and the same sorted client ids, so their shares are
disjoint and cover all queues: clients do so for themselves, brokers for clients that ask them.
Follows AllocateMessageQueueAveragely and AllocateMessageQueueAveragelyByCircle of RocketMQ 5.3.3.
"""

from collections.abc import Sequence

from cometmq.model.queue import MessageQueue


def allocate_averagely(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
) -> list[MessageQueue]:
    """The block of queues that falls to `own_id`: the default of all clients.

    The shares of all members are disjoint, cover all queues, and differ by one at most.

    Args:
        queues: of one topic, in any order.
        client_ids: all members, in any order, each once.
        own_id: whose share; a stranger gets none.
    """
    members = sorted(client_ids)
    if own_id not in members:
        return []
    place = members.index(own_id)
    share, rest = divmod(len(queues), len(members))
    start = place * share + min(place, rest)
    return sorted(queues)[start : start + share + (1 if place < rest else 0)]


def allocate_in_circle(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
) -> list[MessageQueue]:
    """Every n-th queue, where n is the number of members; arguments as `allocate_averagely`."""
    members = sorted(client_ids)
    if own_id not in members:
        return []
    return sorted(queues)[members.index(own_id) :: len(members)]


def allocate_for_pop(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str, neighbours: int
) -> list[MessageQueue]:
    """The queues that a member pops: its share and those of the members behind it (allocate4Pop).

    Args:
        queues: of one topic, in any order.
        client_ids: all members, in any order, each once.
        own_id: whose share.
        neighbours: how many members' shares it pops besides; at 0 or less, or when that is all of
            them, every member pops any queue of every broker (queue id -1).
    """
    members = sorted(client_ids)
    if neighbours <= 0 or neighbours >= len(members) - 1:
        brokers = sorted({(queue.topic, queue.broker_name) for queue in queues})
        return [MessageQueue(topic, broker_name, -1) for topic, broker_name in brokers]
    if own_id not in members:
        return []
    place = members.index(own_id)
    if len(members) > len(queues):
        return [sorted(queues)[place % len(queues)]] if queues else []
    shares = [
        allocate_averagely(queues, members, members[(place + step) % len(members)])
        for step in range(neighbours + 1)
    ]
    return [queue for share in shares for queue in share]
