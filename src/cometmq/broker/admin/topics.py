"""Administration of topics: create, change, delete, read.

Follows AdminBrokerProcessor of RocketMQ 5.3.3. A change succeeds when it is on disk, and the reachable nameservers
have answered or failed (it waits 3 s at most for these).
"""

from asyncio import Future
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from cometmq.broker.parts import Parts
from cometmq.broker.tables.saving import saved
from cometmq.broker.tables.topic_limits import limits_of
from cometmq.broker.tables.topic_policies import (
    check_policies,
    check_queue_type,
    is_batch_topic,
)
from cometmq.broker.tables.topics import QUEUES_MAX, Topics
from cometmq.codec.headers.topic import CreateTopic
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.group import GroupConfig
from cometmq.model.names import check_topic, pop_retry_topic
from cometmq.model.text import error_text, in_quotes
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps
from cometmq.store.message_store import MessageStore

_PERM_BITS = 15

Config = TypeVar("Config", TopicConfig, GroupConfig)


class TopicAdministration:
    """The administration of topics: create, change, delete, find."""

    def __init__(self, parts: Parts, *, announce: Callable[[], Steps[None]]) -> None:
        """`announce` registers changes at the nameservers; waits up to 3 s until the reachable ones answer or fail."""
        self._parts = parts
        self._copies = parts.table_copies
        self._announce = announce

    def change(self, request: CreateTopic) -> Steps[None]:
        """Create or change a topic; its attributes are changes to the existing ones.

        Raises:
            RequestError: The topic is invalid, there are too many topics, or the disk failed.
        """
        known = self._parts.topics.get(request.topic)
        attributes = altered_by_text(known.attributes if known else {}, request.attributes)
        config = TopicConfig(
            request.topic,
            request.read_queue_nums,
            request.write_queue_nums,
            request.perm,
            request.topic_filter_type,
            request.topic_sys_flag or 0,
            request.order,
            attributes,
        )
        self._check(config)
        yield from self._settled(self._parts.topics.put(config))

    def change_many(self, configs: Sequence[TopicConfig]) -> Steps[None]:
        """Create or change topics: all of them, or none if one is invalid.

        If there are too many topics, those before the first that has no room are changed. The attributes of each config
        are changes to the topic's, with a sign before each key.

        Raises:
            RequestError: A topic is invalid, there are too many topics, or the disk failed.
        """
        wanted = [changed(self._parts.topics.get(each.name), each) for each in configs]
        for config in wanted:
            self._check(config)
        saving, full = None, None
        for config in wanted:
            try:
                saving = self._parts.topics.put(config)
            except RequestError as error:
                full = error
                break
        if saving is not None:
            # A save writes all topics, and the last one has all of them.
            yield from self._settled(saving)
        if full is not None:
            raise full

    def _settled(self, *saving: "Future[Any]") -> Steps[None]:
        """Announce changed topics to the nameservers, up to 3 s, then wait until the saves that have begun are done."""
        yield from self._announce()
        yield from saved(*saving)

    def _check(self, config: TopicConfig) -> None:
        check_topic(config.name)
        if self._parts.topics.is_system(config.name):
            raise invalid_parameter(f"The topic[{config.name}] is conflict with system topic.")
        counts = (config.read_queues, config.write_queues)
        if min(counts) < 0 or not 1 <= max(counts) <= QUEUES_MAX:
            raise invalid_parameter(
                f"topic {config.name} would have {counts[0]} read and {counts[1]} write queues; write 1 to {QUEUES_MAX}"
            )
        if not 0 <= config.perm <= _PERM_BITS:
            raise invalid_parameter(
                f"perm {config.perm} of topic {config.name} is not a permission; 6 is read and write, 4 read, 2 write"
            )
        limits_of(config.attributes)
        known = self._parts.topics.get(config.name)
        check_policies(config.attributes, known.attributes if known else {})
        if known is None or not is_batch_topic(known.attributes):
            check_queue_type(config.attributes)

    def delete(self, name: str) -> Steps[None]:
        """Delete a topic, its queues, the offsets in it, and its unshared pop retry topics.

        Raises:
            RequestError: The name is invalid or a system topic's, or the disk failed; some files may remain of a topic
                that is deleted.
            StoreBusy: The log is being truncated; nothing is changed.
        """
        # Older brokers created topics whose names are too long for a directory; these can be deleted, too.
        check_topic(name, is_any_length=self._parts.topics.get(name) is not None)
        if self._parts.topics.is_system(name):
            raise invalid_parameter(f"The topic[{name}] is conflict with system topic.")
        names = (*self._pop_retry_topics(name), name)
        saving, left = delete_topics(
            names, f"topic {name}", self._parts.topics, self._parts.store
        )
        yield from self._settled(*saving)
        yield from self._copies.deleted(RequestCode.GET_ALL_TOPIC_CONFIG, name)
        if left is not None:
            raise left

    def _pop_retry_topics(self, topic: str) -> list[str]:
        """Return the names of the existing pop retry topics of the groups with offsets in a topic, without shared ones.

        Group a_b with topic c has the same retry topic as group a with topic b_c (enableRetryTopicV2 avoids that). Such
        a topic stays if another group has an offset in it.
        """
        owners = {
            name: group
            for group in self._parts.offsets.groups_of(topic)
            for is_v2 in (False, True)
            if self._parts.topics.get(name := pop_retry_topic(topic, group, is_v2=is_v2))
            is not None
        }
        shared = {
            name
            for name, group in self._parts.offsets.topics_and_groups()
            if owners.get(name, group) != group
        }
        return [name for name in owners if name not in shared]

    def find(self, name: str) -> TopicConfig:
        """Return the configuration of a topic, or raise RequestError (TOPIC_NOT_EXIST)."""
        config = self._parts.topics.get(name)
        if config is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}"
            )
        return config


def delete_topics(
    names: Iterable[str], what: str, topics: Topics, store: MessageStore
) -> tuple[list[Future[Any]], RequestError | None]:
    """Delete topics and their queues; return the saves to wait for, and, if files remain, an error about `what`.

    The queues of a topic in the log of a group are deleted when its save has ended. Raises StoreBusy if the log is being
    truncated; nothing is changed then.
    """
    saving: list[Future[Any]] = []
    left = None
    for name in names:
        try:
            # First, because if the store is busy, the topic must stay.
            if not topics.is_logged:
                store.delete_topic(name)
        except OSError as error:
            left = RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{what} is deleted, but some files could not be deleted: {error_text(error)}",
            )
        saving.append(topics.delete(name, end=store.max_offset))
    return saving, left


def altered(
    known: Mapping[str, str], changes: Iterable[tuple[str, str | None]]
) -> dict[str, str]:
    """Return the attributes after changes, which are pairs of a signed key and, for `+`, the new value.

    Raises:
        RequestError: INVALID_PARAMETER: A key has no sign or is empty, or is to be set without a value.
    """
    found = dict(known)
    for signed, value in changes:
        key = signed[1:]
        if signed.startswith("+") and key and value is not None:
            found[key] = value
        elif signed.startswith("-") and key:
            found.pop(key, None)
        else:
            raise invalid_parameter(
                f"attribute {in_quotes(signed, 80)}: write +key=value to set it and -key to remove it"
            )
    return found


def changed(known: Config | None, config: Config) -> Config:
    """Return a configuration with its attributes applied, as changes, to the attributes of the known one (`altered`)."""
    before = known.attributes if known else {}
    return replace(config, attributes=altered(before, config.attributes.items()))


def altered_by_text(known: Mapping[str, str], text: str | None) -> dict[str, str]:
    """Return attributes after changes such as `+cleanup.policy=COMPACTION,-reserve.time`; see `altered`."""
    words = (word.strip() for word in (text or "").split(","))
    parts = (word.partition("=") for word in words if word)
    return altered(known, ((key, value if sign else None) for key, sign, value in parts))
