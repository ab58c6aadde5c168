"""The queue of a message group: Guava's consistent hash, so that Java's proxies and this one choose the same queue."""

_FACTOR = 2862933555777941757
_MASK = (1 << 64) - 1
_RANGE = float(1 << 31)


def queue_of_group(group_hash: int, count: int) -> int:
    """Return a number from 0 to `count` - 1 for the Java hash of a message group (Hashing.consistentHash of Guava)."""
    state = group_hash & _MASK
    candidate = 0
    while True:
        state = (state * _FACTOR + 1) & _MASK
        step = ((state >> 33) + 1) / _RANGE
        following = int((candidate + 1) / step)
        if not 0 <= following < count:
            return candidate
        candidate = following
