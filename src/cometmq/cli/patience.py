"""The timeout of a command for each answer of a server: `cometmq --timeout SECONDS`, or COMETMQ_TIMEOUT."""

import os
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from cometmq import ClientSettings

Settings = TypeVar("Settings", bound="ClientSettings")

VARIABLE = "COMETMQ_TIMEOUT"
SECONDS_DEFAULT = (
    5.0  # mqadmin's (DefaultMQAdminExt.timeoutMillis); a program's client waits 3 s.
)
SECONDS_MAX = 3600.0


def wait_for_answers(seconds: float) -> None:
    """Set the timeout of each answer, in seconds, for later calls of `patient`, also in child processes."""
    os.environ[VARIABLE] = str(seconds)


def patient(kind: type[Settings], **values: Any) -> Settings:
    """Return settings for a client of a command, with the user's timeout (default 5 s) for answers and connecting."""
    timeout_ms = int(float(os.environ.get(VARIABLE) or SECONDS_DEFAULT) * 1_000)
    return kind(request_timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms, **values)
