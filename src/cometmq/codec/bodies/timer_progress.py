"""The progress of the timer, as a group that elects its leader writes it to its log; names of TimerCheckpoint of RocketMQ 5.3.3."""

from cometmq.codec.bodies.json_object import JsonObject


def timer_progress_json(read_ms: int, queue_offset: int) -> dict[str, int]:
    """Convert the progress of the timer to a dict of JSON values.

    Args:
        read_ms: Everything that was due before this time was delivered, ms since 1970.
        queue_offset: The timer's topic was read up to this queue offset.
    """
    return {"lastReadTimeMs": read_ms, "lastTimerQueueOffset": queue_offset}


def timer_progress(part: JsonObject, key: str) -> tuple[int, int]:
    """Decode the time and the offset of `timer_progress_json` from a field. Raises CodecError if it is malformed."""
    progress = part.member(key)
    return progress.int64("lastReadTimeMs"), progress.int64("lastTimerQueueOffset")
