"""Offsets of groups beside each other: QUERY_CORRECTION_OFFSET 308 and CLONE_GROUP_OFFSET 314.

Follows AdminBrokerProcessor and ConsumerOffsetManager of RocketMQ 5.3.3, but for what is wrong there: 308 only
reads (Java deletes the offsets of the groups that it is to leave out), and 314 without a topic
copies every topic (Java looks for a topic without a name).

Next: cometmq.broker.offsets
"""

from collections.abc import Iterator

from cometmq.broker.parts import Feature, Parts
from cometmq.codec import fastjson
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import CloneOffsetsRequest, CorrectionOffsetRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

_AHEAD_OF_ALL = (1 << 63) - 1  # Long.MAX_VALUE: the group compared is behind all others.


class GroupOffsets(Feature):
    """Compares and copies offsets."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.answers = {
            RequestCode.QUERY_CORRECTION_OFFSET: self.compare,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
        }

    # --- 308

    def compare(self, command: Command, _peer: Peer) -> Answer:
        """Answer with the smallest offset of any group in each queue of a topic.

        Where the group compared is behind that, with Long.MAX_VALUE. Groups whose offset lies before
        the queue's first message do not count.
        """
        request = decode_fields(CorrectionOffsetRequest, command.fields)
        topic, offsets = request.topic, self._parts.offsets
        left_out = set((request.filter_groups or "").split(","))
        smallest: dict[int, int] = {}
        for group in offsets.groups_of(topic):
            if group not in left_out:
                for queue_id, offset in self._living(group, topic):
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        for queue_id, offset in offsets.of(request.compare_group, topic).items():
            if smallest.get(queue_id, offset) > offset:
                smallest[queue_id] = _AHEAD_OF_ALL
        return Answer(body=fastjson.dumps({"correctionOffsets": smallest}))

    def _living(self, group: str, topic: str) -> Iterator[tuple[int, int]]:
        for queue_id, offset in self._parts.offsets.of(group, topic).items():
            queue = self._parts.store.queue(topic, queue_id)
            if offset >= (0 if queue is None else queue.min_offset):
                yield queue_id, offset

    # --- 314

    def clone(self, command: Command, _peer: Peer) -> Answer:
        """Let a group go on where another one is, in one topic or in all of that one's.

        Topics that are gone are passed over, and those that the other group's members do not want any
        more, unless the request says that they are offline.
        """
        request = decode_fields(CloneOffsetsRequest, command.fields)
        offsets = self._parts.offsets
        topic = (request.topic or "").strip()
        for name in [topic] if topic else offsets.topics_of(request.src_group):
            is_there = self._parts.topics.get(name) is not None
            if is_there and (request.is_offline or self._is_wanted(request.src_group, name)):
                offsets.copy(request.src_group, request.dest_group, name)
        return Answer()

    def _is_wanted(self, group: str, topic: str) -> bool:
        members = self._parts.members.consumer_group(group)
        wanted = None if members is None else members.subscriptions
        return not wanted or topic in wanted
