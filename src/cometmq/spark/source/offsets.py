"""Where each queue stands: the offsets that a stream keeps in its checkpoint and users write as JSON.

A stream's offset is `{"from": {...}, "q": {"orders": {"broker-a": {"0": 23, "1": 7}}}, "v": 1}`.
`q` is the next offset of each queue. `from` says where the queues begin that no earlier offset
knows: all of them in the first batch, the new ones later. It makes the start durable: Spark asks
for the initial offset again after a restart before the first commit, and a second "latest" would
skip what came between.

Spark compares offsets as text. The same offsets in another order of keys are a new offset and an
endless row of empty batches, so the order is fixed here: topics and brokers by name, queues by
number.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cometmq.model.errors import SettingsError
from cometmq.model.queue import MessageQueue

Offsets = dict[MessageQueue, int]
Json = dict[str, Any]

VERSION = 1
LATEST, EARLIEST = -1, -2  # In users' JSON, as in the community's connector and Kafka's.

INITIAL: Json = {"initial": True, "v": VERSION}
"""The offset before the first batch: nothing is known yet, the first end offset says `from`."""


@dataclass(frozen=True)
class StreamOffset:
    """One offset of a stream.

    Attributes:
        ends: the next offset of each queue.
        begins: where queues begin that the offset before this one does not hold.
        is_initial: before the first batch; then both are empty.
    """

    ends: Offsets
    begins: Offsets = field(default_factory=dict)
    is_initial: bool = False

    def to_json(self) -> Json:
        """The canonical form."""
        if self.is_initial:
            return dict(INITIAL)
        begins = {"from": tree(self.begins)} if self.begins else {}
        return {**begins, "q": tree(self.ends), "v": VERSION}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StreamOffset":
        """Read a checkpointed offset.

        Raises:
            SettingsError: when it is none of this source, or of a later version.
        """
        if value.get("v") != VERSION:
            raise SettingsError(
                f"offset {json.dumps(value)[:200]} is not of this source (version {VERSION}); "
                "use a new checkpoint location"
            )
        if value.get("initial"):
            return cls({}, is_initial=True)
        return cls(flat(value.get("q", {})), flat(value.get("from", {})))


def tree(offsets: Mapping[MessageQueue, int]) -> Json:
    """A tree topic -> broker -> queue -> offset, in canonical order."""
    nested: Json = {}
    for queue in sorted(offsets):
        brokers = nested.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def flat(nested: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Offsets:
    """The offsets of a tree."""
    return {
        MessageQueue(topic, broker, int(queue)): offset
        for topic, brokers in nested.items()
        for broker, queues in brokers.items()
        for queue, offset in queues.items()
    }


@dataclass(frozen=True)
class QueueValues:
    """What a user's JSON says of queues: offsets or times; a tree that may end early.

    `{"orders": 5}` is for all queues of the topic, `{"orders": {"broker-a": 5}}` for those of a
    broker, `{"orders": {"broker-a": {"0": 5}}}` for one.
    """

    values: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, option: str) -> "QueueValues":
        """Read the JSON of an option.

        Raises:
            SettingsError: naming the option and what is wrong.
        """
        try:
            values = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{option}: not JSON: {error}") from error
        _check_level(values, option, ("topic", "broker", "queue"))
        return cls(values)

    def of(self, queue: MessageQueue) -> int | None:
        """The number for this queue, or None where the tree says nothing of it."""
        level: Any = self.values
        for name in (queue.topic, queue.broker_name, str(queue.queue_id)):
            level = level.get(name)
            if level is None or isinstance(level, int):
                return level
        return None  # pragma: no cover  (the parser leaves only numbers below queues)

    def unknown(self, queues: list[MessageQueue]) -> list[str]:
        """Topics of the tree that are not among those read: a misspelt name must not pass."""
        return sorted(set(self.values) - {queue.topic for queue in queues})


def _check_level(value: Any, option: str, names: tuple[str, ...]) -> None:
    """Every level is an object by name, or (below the top) a number for all beneath it."""
    if isinstance(value, int) and not isinstance(value, bool) and len(names) < 3:
        return
    if not isinstance(value, dict) or not names:
        below = f"an object by {names[0]}" if names else "a number"
        raise SettingsError(f"{option}: {json.dumps(value)} stands where {below} must stand")
    for key, inner in value.items():
        if names[0] == "queue" and not key.isdecimal():
            raise SettingsError(f"{option}: {key!r} is no queue number")
        _check_level(inner, option, names[1:])
