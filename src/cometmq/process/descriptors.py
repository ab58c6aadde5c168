"""Bounds on descriptors: how many this process may have, and how many connections may take.

A store has a descriptor for each file that it writes, and more when it reads old ones. Connections that take
all of them would stop it, so they leave it some.
"""

import contextlib
import resource
from pathlib import Path

from cometmq.model.errors import NetError

# The least that a server starts with: interpreter, loop, sockets and an empty store take about 20.
LEAST = 64
# Descriptors that connections leave to the files of a store.
RESERVED = 400
_OWN = Path("/proc/self/fd")


def raise_limit() -> int:
    """Raise the soft limit of this process to its hard limit, as programs do at their start; the limit then.

    Raises:
        NetError: it is so low that they cannot work.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems have a bound below the hard limit that they tell nowhere.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if (found := limit()) < LEAST:
        raise NetError(
            f"this process may have {found} file descriptors (ulimit -n), and needs {LEAST} at least; "
            "allow it many, as with `ulimit -n 65536` or systemd's LimitNOFILE=65536, and start it again"
        )
    return found


def limit() -> int:
    """The number of descriptors that this process may have now."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def in_use() -> int | None:
    """The number of descriptors that this process has open; None where the system does not say."""
    with contextlib.suppress(OSError):
        # Newer kernels count for us.
        return _OWN.stat().st_size or sum(1 for _ in _OWN.iterdir())
    return None


def for_connections() -> int:
    """The number of descriptors that connections may take; where there are few, half of them."""
    most = limit()
    return most - min(RESERVED, most // 2)
