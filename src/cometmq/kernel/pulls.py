"""Splitting of a pull's header into the parts that change from pull to pull and the rest.

A consumer repeats the same header except for four numbers. The rest contains all other parameters and needs to be decoded
only once (broker.pull.fast_path). Compiled twin: `_pulls`; this version leaves each pull to the slow path.
"""

from cometmq.kernel.rows import SplitPull

# Start of a PULL_MESSAGE (11) header with sorted JSON keys, as Java and our client write it.
PULL_BEGIN = b'{"code":11,'
PULL_SIZE_MAX = 1_024  # Of a header; one with a longer subscription is not simple.


def split_pull(data: bytes) -> SplitPull | None:
    """Split the header of a pull into the four numbers that change and the rest; always None without a compiler.

    Returns:
        The header without the four numbers, the queue id, the offset, the offset to commit, and the request's number. None
            unless `data` is exactly one frame with a JSON header that begins with PULL_BEGIN, has no body, at most
            PULL_SIZE_MAX bytes, no backslash, and each of the four numbers once, as JSON writes it.
    """
    return None
