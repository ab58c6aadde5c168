"""Settings of Python's garbage collector for a server, which must never stop for long."""

import gc

# New objects between two runs of the garbage collector, about those of some large reads; Python's default is 700. With 50,000
# a client that only sent failing requests blocked the loop for 100 ms, because a run freed as many at once (`make fuzz`).
_THRESHOLD = 8_000
_OLDER_THRESHOLD = 20


def collect_seldom() -> None:
    """Exempt all existing objects from garbage collection, and collect less often from now on; called once after a start.

    All objects so far are permanent, and reference counting frees the objects of a request once it is answered. The
    collector would only traverse thousands of requests or topics that are still in use, and hold up all threads meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_THRESHOLD, _OLDER_THRESHOLD, _OLDER_THRESHOLD)
