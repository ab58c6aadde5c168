"""Selection of the queues that a Spark read covers: topics by name or pattern, or single queues."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cometmq.model.errors import SettingsError
from cometmq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic, topic_fault
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes

Assignment = Mapping[str, Mapping[str | None, tuple[int, ...]]]
"""topic -> broker (None: every broker) -> queue numbers."""


@dataclass(frozen=True)
class TopicChoice:
    """Topics or queues to read; exactly one attribute is set.

    Attributes:
        names: Topics.
        pattern: Regular expression for whole topic names; excludes system, retry and dead-letter topics
            unless it begins with "%", "rmq_sys_" or "RMQ_SYS_" (or one of these behind "^").
        assignment: Queue numbers by topic and broker (None: every broker).
    """

    names: tuple[str, ...] = ()
    pattern: str = ""
    assignment: Assignment | None = None

    @classmethod
    def by_name(cls, text: str) -> "TopicChoice":
        """Choose topics by a list like "orders, payments"; raise SettingsError if it is empty or a name is illegal."""
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        for fault in (topic_fault(name) for name in names or ("",)):
            if fault is not None:
                raise SettingsError(f"subscribe: {fault}")
        return cls(names=names)

    @classmethod
    def by_pattern(cls, text: str) -> "TopicChoice":
        """Choose topics by a regular expression; raise SettingsError if it is empty or invalid."""
        if not text:
            raise SettingsError("subscribePattern is empty; .* chooses all topics")
        try:
            re.compile(text)
        except re.error as error:
            raise SettingsError(f"subscribePattern {in_quotes(text)}: {error}") from error
        return cls(pattern=text)

    @classmethod
    def by_assignment(cls, text: str) -> "TopicChoice":
        """Choose the queues of topics by JSON text; raise SettingsError if it has another form.

        It maps topics to brokers to queue numbers, as `{"orders": {"broker-a": [0, 1]}}`, or topics to numbers at every
        broker, as `{"orders": [0, 1]}`.
        """
        try:
            return cls(assignment=_assigned(json.loads(text)))
        except (ValueError, AttributeError, TypeError) as error:
            raise SettingsError(
                f'assign: {in_quotes(text)} must be like {{"topic": {{"broker": [0, 1]}}}}: {error}'
            ) from error

    def wanted(self, all_topics: Callable[[], Sequence[str]]) -> list[str]:
        """Return the names of the topics to read now, sorted; `all_topics` is called only for a pattern."""
        if not self.pattern:
            return sorted(self.assignment or self.names)
        is_named = self.pattern.lstrip("^").startswith(("%", "rmq_sys_", "RMQ_SYS_"))
        match = re.compile(self.pattern).fullmatch
        return sorted(
            topic
            for topic in all_topics()
            if match(topic) and (is_named or not _is_inner(topic))
        )

    def covers(self, queue: MessageQueue) -> bool:
        """Return whether to read a queue of a wanted topic: if an assignment names it, or there is no assignment."""
        if self.assignment is None:
            return True
        brokers = self.assignment.get(queue.topic, {})
        return queue.queue_id in brokers.get(queue.broker_name, brokers.get(None, ()))


def _is_inner(topic: str) -> bool:
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _assigned(topics: Any) -> Assignment:
    if not topics:
        raise ValueError("it names no topic")
    return {topic: _queues_of(each) for topic, each in topics.items()}


def _queues_of(value: Any) -> dict[str | None, tuple[int, ...]]:
    by_broker = value if isinstance(value, dict) else {None: value}
    for queues in by_broker.values():
        if not isinstance(queues, list) or not queues or not all(map(_is_number, queues)):
            raise ValueError(f"{json.dumps(queues)[:200]} is not a list of queue numbers")
    if not by_broker:
        raise ValueError("a topic has no broker")
    return {broker: tuple(queues) for broker, queues in by_broker.items()}


def _is_number(queue: Any) -> bool:
    return isinstance(queue, int) and not isinstance(queue, bool) and queue >= 0
