"""Offsets that a stream stores in its checkpoint, and that users write as JSON.

A stream's offset is `{"from": {...}, "q": {"orders": {"broker-a": {"0": 23, "1": 7}}}, "v": 1}`. `q` is the next offset
of each queue. `from` is where queues begin: all queues in the first batch, new and replaced ones later. It makes the
start durable: if a query restarts before its first commit, Spark asks for the initial offset again, and a second
"latest" would skip the messages in between. `late` does the same for queues of brokers that were offline at the start
(`LateQueues`); it is absent if these begin at their first message. `stored` is the store time of the message before
each end, if known; it tells a queue from a later one of the same name (`store_time_ends.stored_before`).

Spark compares offsets as text. The same offsets in another key order would count as new and produce
empty batches forever, so the order is fixed: topics and brokers by name, queues by number.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from cometmq.model.errors import SettingsError
from cometmq.model.queue import MessageQueue
from cometmq.model.text import as_given, in_quotes
from cometmq.offline.columns.names import nearest

Offsets = dict[MessageQueue, int]
Json = dict[str, Any]

VERSION = 1
LATEST, EARLIEST = -1, -2  # In users' JSON, as in Kafka's and the community's connector.
COMMITTED = -3  # Not allowed in users' JSON.

INITIAL: Json = {"initial": True, "v": VERSION}
"""The offset before the first batch: nothing is known yet, the first end offset says `from`."""


@dataclass(frozen=True)
class LateQueues:
    """Start of queues on brokers that were offline when the stream first started.

    Such a queue may hold messages older than the stream's start; a queue created later cannot.

    Attributes:
        at: Store time of the first wanted message in ms since 1970, or `COMMITTED`.
        brokers: Brokers that were online at the start: a queue that appears on them later is new.
    """

    at: int
    brokers: tuple[str, ...]

    def to_json(self) -> Json:
        """Return the start of late queues as a dict for JSON, with the brokers sorted."""
        return {"at": self.at, "brokers": sorted(self.brokers)}


@dataclass(frozen=True)
class StreamOffset:
    """One offset of a stream of topics, as Spark's checkpoint stores it: the next offset of each queue found so far.

    Attributes:
        ends: Next offset of each queue.
        begins: Start offsets of the queues that are new since the previous stream offset, or were replaced.
        is_initial: Whether it is the offset before the first batch; then `ends` and `begins` are empty.
        late: Start of queues on brokers that were offline at the first start; None for their first message.
        stored: Store time of the message before a queue's end, ms since 1970, if known.
    """

    ends: Offsets
    begins: Offsets = field(default_factory=dict)
    is_initial: bool = False
    late: LateQueues | None = None
    stored: Offsets = field(default_factory=dict)

    def to_json(self) -> Json:
        """Return the stream offset as a dict for JSON, in a fixed order because Spark compares offsets as text."""
        if self.is_initial:
            return dict(INITIAL)
        begins = {"from": tree(self.begins)} if self.begins else {}
        late = {"late": self.late.to_json()} if self.late is not None else {}
        stored = {"stored": tree(self.stored)} if self.stored else {}
        return {**begins, **late, "q": tree(self.ends), **stored, "v": VERSION}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StreamOffset":
        """Parse an offset from the checkpoint; raise SettingsError unless it has version 1."""
        if value.get("v") != VERSION:
            raise SettingsError(
                f"offset {json.dumps(value)[:200]} was not written by this source (version {VERSION}); "
                "use a new checkpoint location"
            )
        if value.get("initial"):
            return cls({}, is_initial=True)
        late = value.get("late")
        return cls(
            flat(value.get("q", {})),
            flat(value.get("from", {})),
            late=None if late is None else LateQueues(late["at"], tuple(late["brokers"])),
            stored=flat(value.get("stored", {})),
        )


def tree(offsets: Mapping[MessageQueue, int]) -> Json:
    """Return offsets as nested dicts topic -> broker -> queue number (text) -> offset, sorted."""
    nested: Json = {}
    for queue in sorted(offsets):
        brokers = nested.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def flat(nested: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Offsets:
    """Convert nested dicts topic -> broker -> queue number (text) -> offset to offsets by queue."""
    return {
        MessageQueue(topic, broker, int(queue)): offset
        for topic, brokers in nested.items()
        for broker, queues in brokers.items()
        for queue, offset in queues.items()
    }


@dataclass(frozen=True)
class QueueValues:
    """Offsets or times of queues from a user's JSON, a tree that may end at any level below the top.

    `{"orders": 5}` applies to all queues of the topic, `{"orders": {"broker-a": 5}}` to those of a
    broker, `{"orders": {"broker-a": {"0": 5}}}` to one.
    """

    values: Mapping[str, Any]
    option: str = ""

    @classmethod
    def parse(
        cls, text: str, option: str, fault: Callable[[int], str | None] = lambda _number: None
    ) -> "QueueValues":
        """Parse the JSON text of an option; `fault` returns what is wrong with a number, or None.

        Raises:
            SettingsError: The JSON is invalid; the message names the option and the fault.
        """
        try:
            values = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{option} is not JSON: {error}") from error
        _check_level(values, option, ("topic", "broker", "queue"), fault)
        return cls(values, option)

    def of(self, queue: MessageQueue) -> int | None:
        """Return the offset or time that the user's JSON has for a queue, its broker or its topic, or None."""
        level: Any = self.values
        for name in (queue.topic, queue.broker_name, str(queue.queue_id)):
            level = level.get(name)
            if level is None or isinstance(level, int):
                return level
        return None  # pragma: no cover  (the parser leaves only numbers below queues)

    def check(self, queues: Iterable[MessageQueue]) -> None:
        """Raise SettingsError if the user's JSON names a topic, broker or queue that is not among `queues`."""
        there = by_broker(queues)
        unknown = sorted(set(self.values) - set(there))
        if unknown:
            raise SettingsError(
                f"{self.option} names topics that are not read: {', '.join(unknown)}"
                f"{nearest(unknown[0], sorted(there))}"
            )
        for topic, brokers in self.values.items():
            if isinstance(brokers, dict):
                self._check_brokers(topic, brokers, there[topic])

    def _check_brokers(
        self, topic: str, brokers: Mapping[str, Any], there: Mapping[str, list[int]]
    ) -> None:
        for broker, numbers in brokers.items():
            if broker not in there:
                raise SettingsError(
                    f"{self.option}: topic {in_quotes(topic)} has no broker {in_quotes(broker)}; it has {shown(there)}"
                    f"{_hint(topic, brokers, there)}"
                )
            wrong = (
                set(numbers) - set(map(str, there[broker])) if isinstance(numbers, dict) else ()
            )
            if wrong:
                raise SettingsError(
                    f"{self.option}: topic {in_quotes(topic)} has no readable queue {min(wrong)} at broker "
                    f"{in_quotes(broker)}; it has {shown({broker: there[broker]})}"
                )


def by_broker(queues: Iterable[MessageQueue]) -> dict[str, dict[str, list[int]]]:
    """Return the sorted queue numbers by topic and broker."""
    there: dict[str, dict[str, list[int]]] = {}
    for queue in sorted(queues):
        there.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(
            queue.queue_id
        )
    return there


def shown(brokers: Mapping[str, list[int]]) -> str:
    """Format up to five brokers and their queues for an error message: "broker-a (queues 0 to 3), … and 2 others"."""
    some = [f"{name} ({_numbers(numbers)})" for name, numbers in list(brokers.items())[:5]]
    return ", ".join(some) + (f" and {len(brokers) - 5} others" if len(brokers) > 5 else "")


def _numbers(numbers: list[int]) -> str:
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"queues {numbers[0]} to {numbers[-1]}"
    return f"queue{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:20]))}"


def _hint(topic: str, brokers: Mapping[str, Any], there: Mapping[str, list[int]]) -> str:
    """Return a hint for a broker that does not exist: Kafka's JSON layout, or a similar name; empty without one."""
    if all(name.isdecimal() for name in brokers):
        right = json.dumps({topic: {min(there): dict(brokers)}})
        return (
            ". A queue id is only unique on one broker: Kafka's {topic: {queue: ...}} corresponds to "
            + right
        )
    return slip(next(name for name in brokers if name not in there), there)


def slip(name: str, there: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the name closest to a misspelt one, or an empty text."""
    close = get_close_matches(name.lower(), {each.lower(): each for each in there}, n=1)
    meant = [each for each in there if each.lower() in close]
    return f"; did you mean {in_quotes(meant[0])}?" if meant else ""


def _check_level(
    value: Any, option: str, names: tuple[str, ...], fault: Callable[[int], str | None]
) -> None:
    """Raise SettingsError unless each level is an object by name or, below the top, a number for all under it."""
    if isinstance(value, int) and not isinstance(value, bool) and len(names) < 3:
        if what := fault(value):
            raise SettingsError(f"{option}: {what}")
        return
    if not isinstance(value, dict) or not names:
        below = f"an object by {names[0]}" if names else "a number"
        raise SettingsError(f"{option}: {json.dumps(value)[:200]} must be {below}")
    for key, inner in value.items():
        if names[0] == "queue" and not key.isdecimal():
            raise SettingsError(f"{option}: {as_given(key)} is not a queue number")
        _check_level(inner, option, names[1:], fault)
