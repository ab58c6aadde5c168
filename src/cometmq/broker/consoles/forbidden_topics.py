"""UPDATE_AND_GET_GROUP_FORBIDDEN 353: whether a group may read a topic; the rest of it goes on.

Kept in the forbiddenTable of subscriptionGroup.json, and looked at where Java looks: at the pulls of
members whose subscription the broker knows. Follows AdminBrokerProcessor and
SubscriptionGroupManager of RocketMQ 5.3.3, but for what is wrong there: to permit a topic again
leaves the group's other topics forbidden, and is on disk when it is answered.

Next: cometmq.broker.groups
"""

from cometmq.broker.parts import Feature, Parts
from cometmq.codec import fastjson
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import ForbiddenRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer


class ForbiddenTopics(Feature):
    """Forbids and permits."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.answers = {RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.change}

    async def change(self, command: Command, _peer: Peer) -> Answer:
        """Change it where the request says how, and answer with what holds."""
        request = decode_fields(ForbiddenRequest, command.fields)
        groups, group, topic = self._parts.groups, request.group, request.topic
        if request.readable is not None:
            await groups.permit(group, topic, is_readable=request.readable)
        held = {
            "group": group,
            "readable": groups.is_readable(group, topic),
            "topic": topic,
        }
        return Answer(remark="", body=fastjson.dumps(held))
