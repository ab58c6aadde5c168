"""Administration of consumer groups: create, change, delete, read; compare and copy their offsets.

Follows AdminBrokerProcessor and ConsumerOffsetManager of RocketMQ 5.3.3, without two bugs: comparing only reads
(Java deletes the offsets of the groups to be left out), and copying without a topic copies all topics (Java looks for a
topic with an empty name).
"""

from asyncio import Future
from collections.abc import Iterator, Sequence
from typing import Any

from cometmq.broker.admin.topics import changed, delete_topics
from cometmq.broker.parts import Parts
from cometmq.broker.tables.saving import saved
from cometmq.broker.tables.topics import QUEUES_MAX
from cometmq.codec.headers.console import CloneOffsetsRequest, CorrectionOffsetRequest
from cometmq.codec.headers.topic import DeleteGroup
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.group import GroupConfig
from cometmq.model.names import check_group, check_group_of_clients, retry_topic
from cometmq.model.text import as_given
from cometmq.steps.steps import Steps

# GroupRetryPolicyType of RocketMQ 5.3.3: retries follow the delay levels, or EXPONENTIAL.
_DELAY_LEVELS = "CUSTOMIZED"
AHEAD_OF_ALL = (1 << 63) - 1  # Long.MAX_VALUE: the compared group is behind all others.


class GroupAdministration:
    """The administration of groups; `change`, `delete` and `forbid` are generators that may wait for the disk."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._copies = parts.table_copies

    def change(self, configs: Sequence[GroupConfig]) -> Steps[None]:
        """Create or change groups: all of them, or none if one is invalid.

        Without room for a group, those before it are changed, and itself if only its retry queues have no room. The
        attributes of a config are changes to the group's, with a sign before each key. Missing queues are added to
        existing retry topics.

        Raises:
            RequestError: A config is invalid; there is no room for a group or retry queues; or the disk failed.
        """
        wanted = []
        for config in configs:
            _check(config)
            wanted.append(changed(self._parts.groups.peek(config.name), config))
        saving, full = None, None
        for config in wanted:
            try:
                self._parts.groups.check_room(config.name)
                saving = self._parts.groups.put(config)
                retry = retry_topic(config.name)
                if self._parts.topics.get(retry) is not None:
                    self._parts.topics.ensure(
                        retry, queues=config.retry_queues, perm=PERM_READ_WRITE
                    )
            except RequestError as error:
                full = error
                break
        yield from saved(saving)
        if full is not None:
            raise full

    def delete(self, request: DeleteGroup) -> Steps[None]:
        """Delete a group.

        If the request asks to clean the offsets, they and the group's retry topics (except shared ones) are deleted, too,
        and a new group of this name starts afresh. Dead letters stay, because no group consumes them.

        Raises:
            StoreBusy: The log is being truncated; nothing is changed.
            RequestError: The group is the broker's own, or the disk failed; some files may remain of a retry topic that
                is deleted. A missing group is no error.
        """
        name = request.group_name
        check_group_of_clients(name)
        saving: list[Future[Any]] = []
        left = None
        if request.clean_offset:
            topics = self._retry_topics(name)
            saving, left = delete_topics(
                topics, f"group {name}", self._parts.topics, self._parts.store
            )
            saving.append(
                self._parts.topics.note_deleted_group(name, self._parts.store.max_offset)
            )
        saving.append(self._parts.groups.delete(name, is_place_kept=not request.clean_offset))
        yield from saved(*saving)
        yield from self._copies.deleted(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, name)
        if left is not None:
            raise left

    def _retry_topics(self, group: str) -> list[str]:
        """Return a group's own retry topic and the retry topics of its pops in which it, but no other group, has offsets."""
        own = retry_topic(group)
        others = {
            name
            for name in self._parts.offsets.topics_of(group)
            if name.startswith((f"{own}_", f"{own}+"))
        }
        shared = {
            name
            for name, owner in self._parts.offsets.topics_and_groups()
            if name in others and owner != group
        }
        return [own, *(others - shared)]

    def find(self, name: str) -> GroupConfig:
        """Return the configuration of a group, or raise RequestError (SUBSCRIPTION_GROUP_NOT_EXIST)."""
        group = self._parts.groups.peek(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. {name}"
            )
        return group

    def forbid(self, group: str, topic: str, *, is_readable: bool | None) -> Steps[bool]:
        """Permit or forbid a group to read a topic, or (None) change nothing; return whether it may."""
        if is_readable is not None:
            yield from saved(self._parts.groups.permit(group, topic, is_readable=is_readable))
        return self._parts.groups.is_readable(group, topic)


class GroupComparison:
    """Compares and copies the offsets of groups."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def least_of_all(self, request: CorrectionOffsetRequest) -> dict[int, int]:
        """Return by queue id the smallest committed offset of groups in a topic, except the request's `filter_groups`.

        Offsets before a queue's first message are ignored; queues without any other offset are missing. If the compared
        group's offset in a queue is less than the result, the result is `AHEAD_OF_ALL` instead.
        """
        left_out = set((request.filter_groups or "").split(","))
        smallest: dict[int, int] = {}
        for group in self._parts.offsets.groups_of(request.topic):
            if group not in left_out:
                for queue_id, offset in self._living(group, request.topic):
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        for queue_id, offset in self._parts.offsets.of(
            request.compare_group, request.topic
        ).items():
            if smallest.get(queue_id, offset) > offset:
                smallest[queue_id] = AHEAD_OF_ALL
        return smallest

    def _living(self, group: str, topic: str) -> Iterator[tuple[int, int]]:
        for queue_id, offset in self._parts.offsets.of(group, topic).items():
            queue = self._parts.store.queue(topic, queue_id)
            if offset >= (0 if queue is None else queue.min_offset):
                yield queue_id, offset

    def copy(self, request: CloneOffsetsRequest) -> Steps[None]:
        """Copy the source group's offsets in one topic, or in all its topics, over those of the destination group.

        Deleted topics are skipped. Unless the request says that the source group is offline, so are topics to which its
        members do not subscribe, if any members with subscriptions are connected.

        Raises:
            RequestError: The destination is one of the broker's own groups, or no majority of the group has the change.
        """
        check_group_of_clients(request.dest_group)
        topic = (request.topic or "").strip()
        for name in [topic] if topic else self._parts.offsets.topics_of(request.src_group):
            is_there = self._parts.topics.get(name) is not None
            if is_there and (request.is_offline or self._is_wanted(request.src_group, name)):
                self._parts.offsets.copy(request.src_group, request.dest_group, name)
        yield from saved(self._parts.offsets.logged())

    def _is_wanted(self, group: str, topic: str) -> bool:
        members = self._parts.members.consumer_group(group)
        wanted = None if members is None else members.subscriptions
        return not wanted or topic in wanted


def _check(group: GroupConfig) -> None:
    check_group(group.name)
    policy = group.retry_policy.get("type", _DELAY_LEVELS)
    if policy != _DELAY_LEVELS:
        raise invalid_parameter(
            f"the retry policy {as_given(policy, 40)} of group {group.name} is not supported; use {_DELAY_LEVELS}, "
            "which follows the delay levels"
        )
    if group.retry_queues > QUEUES_MAX:
        raise invalid_parameter(
            f"retryQueueNums={group.retry_queues} of group {group.name}: a topic can have at most {QUEUES_MAX} queues; "
            "with 0, each refused message becomes a dead letter"
        )
