"""Assignment of the queues of a topic to the members of a group.

Clients usually compute their own share; brokers compute it for clients that ask. Follows AllocateMessageQueueAveragely,
AllocateMessageQueueAveragelyByCircle and the assignment for pop of RocketMQ 5.3.3.
"""

from collections.abc import Sequence

from cometmq.model.queue import MessageQueue


def allocate_averagely(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
) -> list[MessageQueue]:
    """Return the contiguous block of the sorted queues that is assigned to `own_id`; the default of Java's clients.

    With equal arguments, members get disjoint blocks that cover all queues and whose sizes differ by at most one.

    Args:
        queues: Queues of one topic, in any order.
        client_ids: Client ids of all members without duplicates, in any order.
        own_id: Client id of the member; an unknown one gets no queues.
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
    """Return every n-th queue from the place of `own_id` on, n being the number of members; none for an unknown member.

    Queues and members are sorted first (AllocateMessageQueueAveragelyByCircle).
    """
    members = sorted(client_ids)
    if own_id not in members:
        return []
    return sorted(queues)[members.index(own_id) :: len(members)]


def allocate_for_pop(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str, neighbours: int
) -> list[MessageQueue]:
    """Return the queues that a member pops: its share and those of the next `neighbours` members (allocate4Pop).

    If there are more members than queues, a member gets one queue, which several may share; but see `neighbours`.

    Args:
        queues: Queues of one topic, in any order.
        client_ids: Client ids of all members without duplicates, in any order.
        own_id: Client id of the member; an unknown one gets no queues, unless every member pops any queue.
        neighbours: Number of other members whose shares it also pops; if it is below 1 or not below the number of other
            members, every member pops any queue of every broker (queue id -1).
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
