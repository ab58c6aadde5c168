"""Notifications to systemd, for units with Type=notify: ready, stopping, and alive (sd_notify(3)).

Without the environment variables that systemd sets, nothing is sent.
"""

import asyncio
import logging
import os
import socket

from cometmq.model.numbers import whole_number

_log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send a state, such as "READY=1", to the socket that NOTIFY_SOCKET names, if any; log a warning if that fails."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    # A name that begins with @ is an abstract socket, which begins with a null byte.
    address = f"\0{path[1:]}" if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as outlet:
            outlet.settimeout(0)
            outlet.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("systemd cannot be notified of %s at %s: %s", state, path, error)


async def ping_watchdog() -> None:
    """Notify systemd twice in each WatchdogSec that this loop runs; return at once without one for this process."""
    microseconds = whole_number(os.environ.get("WATCHDOG_USEC", "0"))
    if not microseconds or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(microseconds / 2_000_000)
