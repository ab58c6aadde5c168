"""Requests for topics (17, 18, 21, 215, 305, 351)."""

from collections.abc import Callable

from cometmq.broker.admin.topics import TopicAdministration
from cometmq.broker.parts import Parts
from cometmq.broker.replication.copy_mark import LOG_END
from cometmq.codec.bodies.topic_config import (
    TopicTable,
    decode_topic_configs,
    encode_topic_config,
    encode_topic_table,
)
from cometmq.codec.bodies.topic_list import encode_topic_list
from cometmq.codec.headers.topic import CreateTopic, TopicRequest
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.answering import body_of, by_body, by_code, by_fields
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere


def topic_answers(parts: Parts, announce: Callable[[], Steps[None]]) -> Answers:
    """Return the handlers of requests to read, create, change, delete topics; `announce` registers them at nameservers."""
    administration, topics = TopicAdministration(parts, announce=announce), parts.topics

    def all_topics(table: TopicTable) -> Steps[Answer]:
        # Up to this offset of the log a slave knows the topics then.
        fields = {LOG_END: str(parts.store.max_offset)}
        body = yield from elsewhere(lambda: encode_topic_table(table))
        return Answer(fields=fields, body=body)

    return {
        RequestCode.UPDATE_AND_CREATE_TOPIC: by_fields(CreateTopic, administration.change),
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: by_body(
            decode_topic_configs, administration.change_many
        ),
        RequestCode.DELETE_TOPIC_IN_BROKER: by_fields(
            TopicRequest, lambda request: administration.delete(request.topic)
        ),
        RequestCode.GET_ALL_TOPIC_CONFIG: by_code(topics.table, all_topics),
        RequestCode.GET_TOPIC_CONFIG: by_fields(
            TopicRequest,
            lambda request: administration.find(request.topic),
            body_of(encode_topic_config),
        ),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: by_code(
            topics.system_names, body_of(encode_topic_list)
        ),
    }
