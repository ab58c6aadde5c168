"""Requests: pulls (11, 361), checks of subscriptions (46), and limits on readers of old data (2001 to 2003)."""

import orjson

from cometmq.broker.parts import Parts
from cometmq.broker.pull.filters import FilterCheck, Filters
from cometmq.broker.pull.pulls import PullAnswer, Pulls
from cometmq.broker.request_caller import by_caller
from cometmq.codec.bodies.heartbeat import decode_client_config
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.java_properties import decode_java_properties
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError, invalid_parameter
from cometmq.model.names import group_fault
from cometmq.net.answer import Answer
from cometmq.net.answering import body_of, by_body, by_code
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


def pull_answers(pulls: Pulls) -> Answers:
    """Return the handlers of pulls, and of pulls of lite pull consumers of RocketMQ 5.x; both may be held."""
    return {
        RequestCode.PULL_MESSAGE: by_caller(PullRequest, pulls.pull, encode),
        RequestCode.LITE_PULL_MESSAGE: by_caller(PullRequest, pulls.lite_pull, encode),
    }


def encode(result: PullAnswer) -> Answer:
    """Encode the answer to a pull."""
    fields = {
        "suggestWhichBrokerId": str(result.next_broker),
        "nextBeginOffset": str(result.next_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
        "groupSysFlag": str(result.group_flag),
        "topicSysFlag": str(result.topic_flag),
    }
    return Answer(result.code, result.remark, fields, [*result.records])


def filter_answers(parts: Parts) -> Answers:
    """Return the handler of the check of a consumer's subscription; a request without one passes."""
    checks = FilterCheck(Filters(parts.settings, parts.members), parts.turns)

    def check(command: Command, peer: Peer) -> Steps[Answer]:
        asked = decode_client_config(command.body)
        if asked is not None:
            yield from checks.check(asked, peer)
        return Answer()

    return {RequestCode.CHECK_CLIENT_CONFIG: check}


_BODY_MAX = 1 << 20
_THRESHOLD_MAX = (1 << 63) - 1  # A Java long.


def cold_reader_answers(parts: Parts) -> Answers:
    """Return the handlers of the requests of cold data control, for the groups' thresholds of cold reads."""
    cold = parts.cold
    return {
        # All thresholds in the body are set, or none.
        RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: by_body(_thresholds, cold.change),
        RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: by_body(_group, cold.remove),
        RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: by_code(cold.to_json, body_of(orjson.dumps)),
    }


def _thresholds(body: bytes) -> dict[str, int]:
    if len(body) > _BODY_MAX:
        raise invalid_parameter(
            f"the body has {len(body)} bytes; at most {_BODY_MAX} are allowed"
        )
    try:
        values = decode_java_properties(body)
    except CodecError as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}"
        ) from None
    return {group: _threshold(group, text) for group, text in values.items()}


def _group(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise invalid_parameter(
            "the body must be the name of a consumer group, in UTF-8"
        ) from None


def _threshold(group: str, text: str) -> int:
    if (fault := group_fault(group)) is not None:
        raise invalid_parameter(fault)
    text = text.strip()
    # More than 20 digits cannot be valid, and Python parses thousands of digits slowly.
    if (
        not text.isascii()
        or not text.isdecimal()
        or len(text) > 20
        or int(text) > _THRESHOLD_MAX
    ):
        raise invalid_parameter(
            f"the threshold of group {group} must be a number of bytes, 0 or more"
        )
    return int(text)
