"""Requests for consumer groups (200, 201, 207, 225, 352), their read permissions (353) and their offsets (308, 314).

A change of a group or permission is not confirmed before it is on disk; copied offsets are saved later.
"""

from cometmq.broker.admin.groups import GroupAdministration, GroupComparison
from cometmq.broker.parts import Parts
from cometmq.codec import fastjson
from cometmq.codec.bodies.group_config import (
    decode_group_config,
    decode_group_configs,
    encode_group_config,
    encode_group_table,
)
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import (
    CloneOffsetsRequest,
    CorrectionOffsetRequest,
    ForbiddenRequest,
)
from cometmq.codec.headers.topic import DeleteGroup, GroupRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere


class GroupHandler:
    """Handles requests to read, create, change and delete consumer groups, and to copy their offsets."""

    def __init__(self, parts: Parts) -> None:
        self._administration = GroupAdministration(parts)
        self._comparison = GroupComparison(parts)
        self._groups = parts.groups
        self.answers: Answers = {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.create,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.create_many,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.get,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbid,
            RequestCode.QUERY_CORRECTION_OFFSET: self.compare,
            RequestCode.CLONE_GROUP_OFFSET: self.copy,
        }

    def create(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Create or change a group (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200)."""
        yield from self._administration.change([decode_group_config(command.body)])
        return Answer()

    def create_many(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Create or change groups (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225)."""
        yield from self._administration.change(decode_group_configs(command.body))
        return Answer()

    def delete(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Delete a group and, if the request wishes it, its offsets and retry topics (DELETE_SUBSCRIPTIONGROUP 207)."""
        yield from self._administration.delete(decode_fields(DeleteGroup, command.fields))
        return Answer()

    def all(self, _command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with all groups and their read permissions as JSON (GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201)."""
        table = self._groups.table()
        return Answer(body=(yield from elsewhere(lambda: encode_group_table(table))))

    def get(self, command: Command, _peer: Peer) -> Answer:
        """Answer with the configuration of a group as JSON (GET_SUBSCRIPTIONGROUP_CONFIG 352)."""
        name = decode_fields(GroupRequest, command.fields).group
        return Answer(body=encode_group_config(self._administration.find(name)))

    def forbid(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Permit or forbid a group to read a topic, or only answer if it may (UPDATE_AND_GET_GROUP_FORBIDDEN 353)."""
        request = decode_fields(ForbiddenRequest, command.fields)
        group, topic = request.group, request.topic
        is_readable = yield from self._administration.forbid(
            group, topic, is_readable=request.readable
        )
        held = {"group": group, "readable": is_readable, "topic": topic}
        return Answer(remark="", body=fastjson.dumps(held))

    def compare(self, command: Command, _peer: Peer) -> Answer:
        """Answer with the offsets by queue that `GroupComparison.least_of_all` returns (QUERY_CORRECTION_OFFSET 308)."""
        request = decode_fields(CorrectionOffsetRequest, command.fields)
        smallest = self._comparison.least_of_all(request)
        return Answer(body=fastjson.dumps({"correctionOffsets": smallest}))

    def copy(self, command: Command, _peer: Peer) -> Answer:
        """Copy a group's offsets to another group (CLONE_GROUP_OFFSET 314)."""
        self._comparison.copy(decode_fields(CloneOffsetsRequest, command.fields))
        return Answer()
