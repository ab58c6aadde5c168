"""Refuses static topics (5.x), whose logical queues are stored in queues of several brokers.

If a mapped queue were treated as an ordinary one, its messages would have other offsets. So a broker that finds mappings in
its directory (topicQueueMapping.json) does not start, and UPDATE_AND_CREATE_STATIC_TOPIC 513 is refused (broker.refusals).
"""

from cometmq.broker.parts import Feature, Parts
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.errors import SettingsError


class StaticTopics(Feature):
    """The feature that refuses to start with static topics, whose queues are mapped to several brokers."""

    def __init__(self, parts: Parts) -> None:
        self._file = parts.config_file("topicQueueMapping.json")

    async def start(self) -> None:
        """Check for mappings that a Java broker left.

        Raises:
            SettingsError: The file has mappings.
            CodecError: Neither the file nor its .bak can be decoded.
        """
        topics = self._file.load(_mapped_topics)
        if topics:
            raise SettingsError(
                f"{self._file.path} has static topics, which this broker does not support: "
                f"{', '.join(sorted(topics))}; use a Java broker for this directory, or delete them with it"
            )


def _mapped_topics(text: str) -> list[str]:
    body = load_object(text, "topicQueueMapping")
    return list(body.member("topicQueueMappingInfoMap").names())
