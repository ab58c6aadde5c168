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
    """The feature that refuses static topics."""

    def __init__(self, parts: Parts) -> None:
        self._file = parts.config_file("topicQueueMapping.json")

    async def start(self) -> None:
        """Check for mappings that a Java broker left.

        Raises:
            SettingsError: There are some.
            CodecError: Their file cannot be decoded.
        """
        topics = self._file.load(_mapped_topics)
        if topics:
            raise SettingsError(
                f"{self._file.path} maps the queues of {', '.join(sorted(topics))}: static topics "
                "are not served here; let a Java broker serve this directory, or delete them there"
            )

    def create(self) -> NoReturn:
        """Refuse to create a static topic.

        Raises:
            RequestError: REQUEST_CODE_NOT_SUPPORTED, always.
        """
        raise RequestError(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "static topics are not served by this broker; create an ordinary topic",
        )


def _mapped_topics(text: str) -> list[str]:
    body = load_object(text, "topicQueueMapping")
    return list(body.member("topicQueueMappingInfoMap").names())
