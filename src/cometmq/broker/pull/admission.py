"""Checks pulls against the broker's permission, the group, the topic and the group's subscription.

Codes and most remarks are those of PullMessageProcessor of RocketMQ 5.3.3; `pull.pulls` calls the checks.
"""

from cometmq.broker.parts import Parts
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.headers.pull import PullRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.flags import is_readable
from cometmq.model.group import GroupConfig
from cometmq.model.subscription import Subscription
from cometmq.model.topic import TopicConfig

# forbiddenType of a pull that is refused with NO_PERMISSION (ForbiddenType of RocketMQ 5.x).
_BY_BROKER, _BY_GROUP, _BY_TOPIC, _BY_BROADCAST, _BY_BOTH = "1", "2", "3", "4", "5"


class PullAdmission:
    """The checks of pulls against settings, topics, groups and members."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._topics = parts.topics
        self._groups = parts.groups
        self._members = parts.members

    def check_broker(self) -> None:
        """Raise RequestError unless the broker's permission allows reading."""
        if not is_readable(self._settings.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._settings.broker_name}] pulling message is forbidden",
                {"forbiddenType": _BY_BROKER},
            )

    def group_of(self, request: PullRequest) -> GroupConfig:
        """Return the configuration of the group that pulls; a master creates a missing one if the settings allow it.

        Raises:
            RequestError: The group does not exist and is not created, or it may not consume.
        """
        return self._groups.consuming(request.consumer_group, {"forbiddenType": _BY_GROUP})

    def topic_of(self, request: PullRequest) -> TopicConfig:
        """Return the configuration of the topic that is pulled from.

        Raises:
            RequestError: The topic does not exist, may not be read, or has no such queue.
        """
        topic = self._topics.existing(request.topic)
        if not is_readable(topic.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the topic[{request.topic}] pulling message is forbidden",
                {"forbiddenType": _BY_TOPIC},
            )
        if not 0 <= request.queue_id < topic.queue_count:
            raise invalid_parameter(
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queues}]"
            )
        return topic

    def subscription_of(self, request: PullRequest, group: GroupConfig) -> Subscription:
        """Return a group's subscription to a topic, as its heartbeats reported it.

        Raises:
            RequestError: It does not exist, is older than the version in the request, or may not be used.
        """
        members = self._members.consumer_group(group.name)
        found = None if members is None else members.subscriptions.get(request.topic)
        if members is None or found is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist"
            )
        if members.model == BROADCASTING and not group.broadcast_enabled:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"subscription group [{group.name}] may not consume in broadcasting mode",
                {"forbiddenType": _BY_BROADCAST},
            )
        if not self._groups.is_readable(group.name, request.topic):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{group.name}] is forbidden for topic[{request.topic}]",
                {"forbiddenType": _BY_BOTH},
            )
        if found.version < request.sub_version:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        return found
