"""Detection that a queue was replaced by one of the same name: a recreated topic, or a broker with an empty disk.

Offsets need not show it, because the new queue may hold more messages than were read of the old one. A checkpoint
therefore keeps the store time of the message before each end, if known, and later plans compare it with that of the
message now at that offset.
"""

from collections.abc import Mapping

from cometmq.connect import PullStatus
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.cluster import PullPlan, SourceCluster
from cometmq.spark.source.offsets import Offsets

# Messages requested at once; one may be 4 MB long.
_ASKED_MAX = 256


def stored_before(ends: Mapping[MessageQueue, int], cluster: SourceCluster) -> Offsets:
    """Return by queue the store time (ms since 1970) of the message before its end, if its broker returns one."""
    # Only streams need it.
    from cometmq.offline.columns.window import RecordWindow, record_starts

    found: Offsets = {}
    asked = [(queue, end - 1, end) for queue, end in sorted(ends.items()) if end > 0]
    for first in range(0, len(asked), _ASKED_MAX):
        some = asked[first : first + _ASKED_MAX]
        pulls = cluster.first_pulls(some, PullPlan(rows=1, depth=1))
        for (queue, _, _), pull in zip(some, pulls, strict=True):
            if pull and pull.status is PullStatus.FOUND:
                window = RecordWindow(pull.body, record_starts(pull.body))
                found[queue] = int(window.stored_ms()[0])
    return found
