"""The header of a pull, split into what changes from pull to pull and the rest.

A consumer writes the same header again and again, but for four numbers. What is left without them says all else that it
asks, and is known when it has been seen once (broker.pull.fast_path). A fast path: compiled in `_pulls`, and without a compiler each pull is left to the slow path.
"""

from cometmq.kernel.rows import SplitPull

# How the header of PULL_MESSAGE (11) begins where JSON's keys are sorted, as Java and our client write them.
PULL_BEGIN = b'{"code":11,'
PULL_SIZE_MAX = 1_024  # Of a header; with a longer subscription it is not plain.


def split_pull(data: bytes) -> SplitPull | None:
    """Split the header of a pull.

    Args:
        data: what came from a connection.

    Returns:
        The header without the four numbers, the queue's number, its offset, the offset to commit, and the request's number.
        None where `data` is not one whole frame with a JSON header that begins as PULL_BEGIN, has no body, at most PULL_SIZE_MAX
        bytes and no backslash, or does not have each of the four once, as JSON writes it.
    """
    return None
