"""The manifest of an archive of topics: `_archive/topics.json`, with ranges of offsets for each queue.

{"queues": {"orders": {"broker-a": {"0": [[0, 5120]]}}}, "v": 1}
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cometmq.model.queue import MessageQueue
from cometmq.offline.archive_files import KEPT_VERSION, read_kept, write_whole
from cometmq.offline.coverage import Queue, Range
from cometmq.offline.folder import StoreFolder
from cometmq.store.archive_mark import joined

TOPICS_FILE = "_archive/topics.json"


@dataclass(frozen=True)
class TopicManifest:
    """The content of `topics.json`: archived ranges of queue offsets by queue, ascending."""

    queues: Mapping[MessageQueue, tuple[Range, ...]]

    def end(self, queue: MessageQueue) -> int | None:
        """Return the queue offset at which the last archived range of a queue ends (exclusive); None if it has none."""
        ranges = self.queues.get(queue)
        return ranges[-1][1] if ranges else None

    def with_ranges(self, more: Iterable[tuple[MessageQueue, Range]]) -> "TopicManifest":
        """Return a manifest with additional, later ranges of queue offsets; adjacent or overlapping ones are joined."""
        queues = dict(self.queues)
        for queue, added in more:
            queues[queue] = tuple(joined([*queues.get(queue, ()), added]))
        return TopicManifest(queues)

    def by_queue(self) -> dict[Queue, tuple[Range, ...]]:
        """Return the archived ranges of queue offsets by (topic, broker, queue id)."""
        return {
            (queue.topic, queue.broker_name, queue.queue_id): ranges
            for queue, ranges in self.queues.items()
        }


def read_topic_manifest(place: str) -> TopicManifest | None:
    """Read and return the manifest of an archive of topics (`topics.json`); None if there is none.

    Raises:
        SettingsError: It has another version.
        StoreDamaged: The file is damaged.
    """

    def parse(found: Any) -> TopicManifest:
        return TopicManifest(
            {
                MessageQueue(topic, broker, int(number)): tuple((lo, hi) for lo, hi in ranges)
                for topic, brokers in found["queues"].items()
                for broker, numbers in brokers.items()
                for number, ranges in numbers.items()
            }
        )

    return read_kept(StoreFolder(place), TOPICS_FILE, parse)


def write_topic_manifest(place: str, manifest: TopicManifest) -> None:
    """Write the manifest of an archive of topics under a temporary name, then rename it; OSError if that fails."""
    queues: dict[str, dict[str, dict[str, list[list[int]]]]] = {}
    for queue, ranges in sorted(manifest.queues.items()):
        brokers = queues.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = [
            [lo, hi] for lo, hi in ranges
        ]
    target = StoreFolder(place)
    target.files.create_dir(target.path("_archive"), recursive=True)
    content = json.dumps({"queues": queues, "v": KEPT_VERSION})
    write_whole(target, TOPICS_FILE, content.encode())
