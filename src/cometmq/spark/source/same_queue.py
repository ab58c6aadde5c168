"""Tells a queue from another one of the same name: a topic that was deleted and made again, a broker with an empty disk.

Offsets alone do not tell: the new queue may have more messages than were read of the old one. So a checkpoint keeps the
store time of the message before each end, and the next plan looks whether that message is still the one at its offset.
"""

from collections.abc import Mapping

from cometmq.client import PullStatus
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.cluster import PullPlan, SourceCluster
from cometmq.spark.source.offsets import Offsets

# A message may be 4 MB long: so many are asked for at once.
_ASKED_MAX = 256


def stored_before(ends: Mapping[MessageQueue, int], cluster: SourceCluster) -> Offsets:
    """Return when the message before each offset was stored, ms since 1970.

    A queue is left out if it has no such message any more, or if its broker does not answer.
    """
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
