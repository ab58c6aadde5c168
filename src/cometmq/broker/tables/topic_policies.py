"""Refuses values of the topic attributes `cleanup.policy` and `reserve.time` that are not implemented, and batch queues.

A compaction topic (`cleanup.policy=COMPACTION`) would be an ordinary one, which loses the last values of its keys with
the log; a topic's own `reserve.time` would not be observed. A start warns of such values that topics already have.
"""

import logging
from collections.abc import Mapping

from cometmq.model.errors import invalid_parameter
from cometmq.model.text import plural
from cometmq.model.topic import TopicConfig

_log = logging.getLogger(__name__)

CLEANUP_POLICY = "cleanup.policy"
RESERVE_TIME = "reserve.time"
QUEUE_TYPE = "queue.type"
BATCH = "BatchCQ"
_NAMED_MAX = 10


def check_policies(attributes: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Refuse a `cleanup.policy` or `reserve.time` that is not implemented; a value that the topic already has may stay.

    Raises:
        RequestError: INVALID_PARAMETER for such an attribute with a value that `known` does not have.
    """
    for name, what in _asked(attributes):
        if attributes[name] != known.get(name):
            raise invalid_parameter(what)


def warn_of_policies(topics: Mapping[str, TopicConfig]) -> None:
    """Log one warning, with up to 10 topics, for each unimplemented value of `cleanup.policy` or `reserve.time`."""
    by_what: dict[str, list[str]] = {}
    for topic in topics.values():
        if topic.attributes:
            for _, what in _asked(topic.attributes):
                by_what.setdefault(what, []).append(topic.name)
    for what, names in by_what.items():
        _log.warning(
            "topics.json, %d %s (%s): %s",
            len(names), plural(len(names), "topic"), ", ".join(names[:_NAMED_MAX]), what,
        )  # fmt: skip


def _asked(attributes: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (name, explanation) of `cleanup.policy` and `reserve.time` if their values are not implemented."""
    policy = attributes.get(CLEANUP_POLICY, "DELETE")
    reserved = attributes.get(RESERVE_TIME, "-1")
    not_compacted = (
        f"{CLEANUP_POLICY}={policy}: topics are not compacted here, and the last message of a key "
        f"is deleted with the log; omit the attribute, or remove it with -{CLEANUP_POLICY}"
    )
    not_reserved = (
        f"{RESERVE_TIME}={reserved}: messages of one topic cannot be deleted by age; set fileReservedTime for all "
        "topics, or retention.hours to hide older messages of this topic from consumers"
    )
    asked = []
    if policy.upper() != "DELETE":
        asked.append((CLEANUP_POLICY, not_compacted))
    if reserved != "-1":
        asked.append((RESERVE_TIME, not_reserved))
    return asked


def check_queue_type(attributes: Mapping[str, str]) -> None:
    """Raise RequestError if these attributes request batch queues."""
    if is_batch_topic(attributes):
        raise invalid_parameter(
            f"{QUEUE_TYPE}={BATCH}: this broker can read such topics but not create them; omit the attribute"
        )


def is_batch_topic(attributes: Mapping[str, str]) -> bool:
    """Return whether a topic with these attributes has batch queues (QueueTypeUtils.isBatchCq of RocketMQ 5.3.3)."""
    return attributes.get(QUEUE_TYPE, "").lower() == BATCH.lower()
