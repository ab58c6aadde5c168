"""Tallies by topic, group and queue, created when they are first used.

What one counts, wider ones count, too:

 a queue's -> its topic's (of a group) -> all of users, or of the system -> all

The number of tallies and the length of names are limited: beyond, a queue counts with its topic, and a topic only in
the totals.
"""

from collections.abc import Callable
from typing import NamedTuple

from cometmq.kernel import Tally
from cometmq.model.names import NAME_BYTES_MAX, is_system_group, is_system_topic

# Limit per table, queues included: enough for 80,000 queues of 10,000 topics (about 150 bytes each, plus names).
TALLIES_MAX = 100_000
_NAMES_LENGTH_MAX = 2 * NAME_BYTES_MAX
WHOLE = -1  # The queue id of a tally for all queues of a topic.


class TallyPlace(NamedTuple):
    """The topic, group and queue that a tally counts.

    Attributes:
        topic: The topic; empty: all topics.
        group: The group; empty: none.
        queue_id: The queue; WHOLE: all queues.
        is_system: Whether the topic or the group is a system one.
    """

    topic: str
    group: str = ""
    queue_id: int = WHOLE
    is_system: bool = False


class TallyTable:
    """The counters (tallies) of one kind of event, by topic, group and queue.

    Attributes:
        all: The tally of all events.
        users: The tally of all events except those of system topics and groups.
    """

    def __init__(
        self,
        fresh: list[Tally],
        *,
        tallies_max: int = TALLIES_MAX,
        is_system: Callable[[str], bool] = is_system_topic,
    ) -> None:
        """Append tallies to `fresh` when they first grow after a sample; `is_system` tests for a system topic."""
        self._fresh = fresh
        self._is_system = is_system
        self._tallies_max = tallies_max
        self._topics: dict[str, dict[tuple[str, int], Tally]] = {}
        self._wholes: dict[tuple[str, str], Tally] = {}
        self._count = 0
        self.all = Tally(TallyPlace(""), None, fresh)
        self.users = Tally(TallyPlace(""), self.all, fresh)
        self._system = Tally(TallyPlace("", is_system=True), self.all, fresh)

    def __len__(self) -> int:
        return self._count

    def of(self, topic: str, group: str = "", queue_id: int = WHOLE) -> Tally:
        """Return the tally of a queue or topic, for a group or none, creating it; beyond the limits, a wider one."""
        tallies = self._topics.get(topic)
        tally = None if tallies is None else tallies.get((group, queue_id))
        return tally or self._make(topic, group, queue_id)

    def get(self, topic: str, group: str = "", queue_id: int = WHOLE) -> Tally | None:
        """Return the tally of a topic, group and queue, or None."""
        return self._topics.get(topic, {}).get((group, queue_id))

    def _make(self, topic: str, group: str, queue_id: int) -> Tally:
        is_system = self._is_system(topic) or is_system_group(group)
        if queue_id != WHOLE:
            above = self.of(topic, group)
        else:
            above = self._system if is_system else self.users
        # No topic or group has a longer name; only a request claims so.
        if self._count >= self._tallies_max or len(topic) + len(group) > _NAMES_LENGTH_MAX:
            return above
        tally = Tally(TallyPlace(topic, group, queue_id, is_system), above, self._fresh)
        self._topics.setdefault(topic, {})[group, queue_id] = tally
        if queue_id == WHOLE:
            self._wholes[topic, group] = tally
        self._count += 1
        return tally

    def topics(self) -> list[str]:
        """Return the names of the topics that have tallies."""
        return list(self._topics)

    def wholes(self) -> list[Tally]:
        """Return the tallies of all topics and groups, without those of single queues."""
        return list(self._wholes.values())

    def forget(self, topic: str, is_gone: Callable[[str], bool] | None = None) -> list[Tally]:
        """Remove the tallies of a topic, or of those of its groups for which `is_gone` returns True; return them."""
        tallies = self._topics.get(topic, {})
        keys = [key for key in tallies if is_gone is None or (key[0] and is_gone(key[0]))]
        gone = [tallies.pop(key) for key in keys]
        for group, queue_id in keys:
            if queue_id == WHOLE:
                del self._wholes[topic, group]
        self._count -= len(gone)
        if gone and not tallies:
            del self._topics[topic]
        return gone
