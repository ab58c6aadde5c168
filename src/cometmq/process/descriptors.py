"""Limits on file descriptors: how many this process may have, and how many connections may use.

A store needs a descriptor for each file that it writes, and more for reading old ones. It would stop working if
connections used all of them, so some are reserved.
"""

import contextlib

from cometmq.model.errors import NetError

# Windows, where clients may run: they call nothing that needs it.
with contextlib.suppress(ImportError):
    import resource

# Minimum to start a server; interpreter, loop, sockets and an empty store need about 20.
LEAST = 64
# Descriptors reserved for the files of a store.
RESERVED = 400


def raise_limit() -> int:
    """Raise the soft limit of open files, if possible to the hard one; return it. Raises NetError if below 64."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems have an undocumented limit below the hard limit.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if (found := limit()) < LEAST:
        raise NetError(
            f"this process may open {found} file descriptors (ulimit -n), but needs at least {LEAST}; "
            "raise the limit with `ulimit -n 65536` or systemd's LimitNOFILE=65536, and start it again"
        )
    return found


def limit() -> int:
    """Return the current soft limit of descriptors for this process; 2**30 if there is none."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def for_connections() -> int:
    """Return the number of descriptors that connections may use: all but 400, at least half."""
    most = limit()
    return most - min(RESERVED, most // 2)
