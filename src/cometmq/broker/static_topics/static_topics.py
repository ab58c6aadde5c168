"""Static topics (5.x), whose logical queues lie in queues of several brokers: refused by name.

A broker that took a mapped queue for a plain one would give its messages under other offsets. So one
that finds mappings in its directory (topicQueueMapping.json) does not start, and
UPDATE_AND_CREATE_STATIC_TOPIC 513 says why it is refused.
"""

from typing import NoReturn

from cometmq.broker.parts import Feature, Parts
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, SettingsError


class StaticTopics(Feature):
    """Says that there are none."""

    def __init__(self, parts: Parts) -> None:
        self._file = parts.config_file("topicQueueMapping.json")

    async def start(self) -> None:
        """Look for mappings that a Java broker left.

        Raises:
            SettingsError: there are some.
            CodecError: their file means nothing.
        """
        topics = self._file.load(_mapped_topics)
        if topics:
            raise SettingsError(
                f"{self._file.path} maps the queues of {', '.join(sorted(topics))}: static topics "
                "are not served here; let a Java broker serve this directory, or delete them there"
            )

    def create(self) -> NoReturn:
        """Refuse to make one.

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
