"""The choice of a queue by the message group, the same as that of RocketMQ's proxy beside this one."""

ANY_QUEUE = -1
# Of Guava's consistent hash.
_HASH_FACTOR = 2862933555777941757
_HASH_MASK = (1 << 64) - 1
_HASH_RANGE = float(1 << 31)


def queue_of_group(group_hash: int, count: int) -> int:
    """Return the queue (0 to `count` - 1) of a message group by its Java hash, as Guava's Hashing.consistentHash."""
    state = group_hash & _HASH_MASK
    candidate = 0
    while True:
        state = (state * _HASH_FACTOR + 1) & _HASH_MASK
        step = ((state >> 33) + 1) / _HASH_RANGE
        following = int((candidate + 1) / step)
        if not 0 <= following < count:
            return candidate
        candidate = following
