"""Who consumes which queues of a topic: every member works out the same answer by itself.

All members see the same sorted queues and the same sorted client ids, so no one needs to be asked.
"""

from collections.abc import Sequence

from cometmq.model.queue import MessageQueue


def allocate_averagely(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], own_id: str
) -> list[MessageQueue]:
    """The block of queues that falls to `own_id` (AllocateMessageQueueAveragely of 5.3.3).

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
