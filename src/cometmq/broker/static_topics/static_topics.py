"""Refuses static topics (5.x), whose logical queues are stored in queues of several brokers.

If a mapped queue were treated as an ordinary one, its messages would have other offsets. So a broker that finds mappings in
its directory (topicQueueMapping.json) does not start, and UPDATE_AND_CREATE_STATIC_TOPIC 513 is refused with the reason.
"""

from typing import NoReturn

from cometmq.broker.parts import Feature, Parts
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, SettingsError


class StaticTopics(Feature):
    """The feature that refuses static topics, whose queues are mapped to several brokers: at the start and in requests."""

    def __init__(self, parts: Parts) -> None:
        self._file = parts.config_file("topicQueueMapping.json")

    async def start(self) -> None:
        """Check for mappings that a Java broker left.

        Raises:
            SettingsError: There are some.
            CodecError: Neither their file nor its .bak can be decoded.
        """
        topics = self._file.load(_mapped_topics)
        if topics:
            raise SettingsError(
                f"{self._file.path} has static topics, which this broker does not support: "
                f"{', '.join(sorted(topics))}; use a Java broker for this directory, or delete them with it"
            )

    def create(self) -> NoReturn:
        """Raise RequestError (REQUEST_CODE_NOT_SUPPORTED), whatever the request."""
        raise RequestError(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "this broker does not support static topics; create an ordinary topic",
        )


def _mapped_topics(text: str) -> list[str]:
    body = load_object(text, "topicQueueMapping")
    return list(body.member("topicQueueMappingInfoMap").names())
