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
from cometmq.codec.headers.console import (
    CloneOffsetsRequest,
    CorrectionOffsetRequest,
    ForbiddenRequest,
)
from cometmq.codec.headers.topic import DeleteGroup, GroupRequest
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.answering import as_is, body_elsewhere, body_of, by_body, by_code, by_fields
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


def group_answers(parts: Parts) -> Answers:
    """Return the handlers of requests to read, create, change and delete consumer groups, and to copy their offsets."""
    administration, comparison = GroupAdministration(parts), GroupComparison(parts)

    def forbid(request: ForbiddenRequest) -> Steps[Answer]:
        group, topic = request.group, request.topic
        is_readable = yield from administration.forbid(
            group, topic, is_readable=request.readable
        )
        held = {"group": group, "readable": is_readable, "topic": topic}
        return Answer(remark="", body=fastjson.dumps(held))

    return {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: by_body(
            lambda body: [decode_group_config(body)], administration.change
        ),
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: by_body(
            decode_group_configs, administration.change
        ),
        RequestCode.DELETE_SUBSCRIPTIONGROUP: by_fields(DeleteGroup, administration.delete),
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: by_code(
            parts.groups.table, body_elsewhere(encode_group_table)
        ),
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: by_fields(
            GroupRequest,
            lambda request: administration.find(request.group),
            body_of(encode_group_config),
        ),
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: by_fields(ForbiddenRequest, forbid, as_is),
        RequestCode.QUERY_CORRECTION_OFFSET: by_fields(
            CorrectionOffsetRequest,
            comparison.least_of_all,
            lambda least: Answer(body=fastjson.dumps({"correctionOffsets": least})),
        ),
        RequestCode.CLONE_GROUP_OFFSET: by_fields(CloneOffsetsRequest, comparison.copy),
    }
