"""Java's String.hashCode, with which RocketMQ hashes the tags and keys of messages."""

from cometmq.model.bounded_cache import keep_short


@keep_short(65536)  # Tags repeat; 65,536 short ones take some 16 MB.
def java_hash(text: str) -> int:
    """Return the signed 32-bit hash of Java's `text.hashCode()`: h = 31*h + unit, over the UTF-16 code units.

    >>> java_hash("TagA")
    2598919
    """
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value
