"""The lanes that sends take without asking, found by two texts of a header; compiled: `_lane_table`."""

from typing import Generic

from cometmq.kernel.rows import End, Lane


class LaneTable(Generic[End]):
    """Lanes by topic and queue."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Lane[End]]] = {}

    def find(self, topic: str, queue_id: str) -> Lane[End]:
        """The lane of a queue.

        Raises:
            LookupError: it has none.
        """
        return self._of[topic][queue_id]

    def keep(self, topic: str, queue_id: int, lane: Lane[End]) -> None:
        """Have sends to a queue find its lane from now on."""
        self._of.setdefault(topic, {})[str(queue_id)] = lane

    def forget(self, topic: str) -> None:
        """Have sends to a topic find none."""
        self._of.pop(topic, None)

    def clear(self) -> None:
        """Forget all topics."""
        self._of.clear()
