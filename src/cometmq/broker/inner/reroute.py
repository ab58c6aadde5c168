"""Reroutes: features store delayed messages, half messages and others in another topic.

A reroute gets a send that has passed the checks before it and returns it, unchanged or with other fields, or refuses
it. The fast path does not call reroutes (broker.send.fast_path).
"""

from collections.abc import Callable
from typing import NamedTuple

from cometmq.kernel.rows import Timing
from cometmq.model.topic import TopicConfig


class RoutedSend(NamedTuple):
    """A message that may be stored, with its destination.

    Attributes:
        topic: The topic in which it is stored.
        queue_id: The queue of that topic.
        properties: The message's properties; a reroute must change a copy.
        sys_flag: System flag without the bits of hosts.
        transaction: Transaction bits that decide whether the record gets a queue entry: with prepared or rollback it
            gets none; 0 for half messages, which need one in the half topic.
        is_due_coded: Whether the queue entry has the due time instead of the tag's hash.
        born_topic: The topic that the client named.
        is_batch: Whether the body is an encoded batch of messages.
        timing_of: For a timed message, returns the data by which the fast path stores further ones to a topic; else None.
    """

    topic: TopicConfig
    queue_id: int
    properties: dict[str, str]
    sys_flag: int
    born_topic: str
    transaction: int = 0
    is_due_coded: bool = False
    is_batch: bool = False
    timing_of: Callable[[str], Timing] | None = None


# Raises RequestError to refuse the send.
Reroute = Callable[[RoutedSend], RoutedSend]
