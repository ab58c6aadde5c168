"""Lines of the audit log: user, address and outcome of each change requested from a server or the dashboard.

All lines have the logger `cometmq.audit`; `net.audit` writes them for requests.
"""

import logging
from typing import NamedTuple

from cometmq.model.rights import EVERYBODY
from cometmq.model.text import cut
from cometmq.process.log_file import AUDIT
from cometmq.process.program_log import UNCOUNTED

_log = logging.getLogger(AUDIT)

# Maximum number of characters of a request's description in a line, and of a user's name.
WHAT_MAX, USER_MAX = 1000, 128


class _Whole(NamedTuple):
    """A text of bounded length, which the formatter of the log must not cut again as it does long arguments."""

    text: str

    def __str__(self) -> str:
        return self.text


def note(
    outcome: str,
    request: str,
    *,
    user: str | None,
    address: str,
    what: str = "",
    reason: str = "",
    is_counted: bool = False,
) -> None:
    """Write a line of the audit log, as information if the outcome is "done", else as a warning.

    Args:
        outcome: "done", "failed" or "refused".
        request: Name of the request or, in the dashboard, of the action.
        user: Name of the user; None if nobody has signed.
        address: Address from which the request came.
        what: What it concerns, of at most `WHAT_MAX` characters.
        reason: Why it has failed or was refused; or the fields of its answer.
        is_counted: Whether lines of this kind may be left out and counted, because anybody can cause them.
    """
    level = logging.INFO if outcome == "done" else logging.WARNING
    who = EVERYBODY.name if user is None else f"user {cut(user, USER_MAX)}"
    fields = {
        "outcome": outcome,
        "request": request,
        "user": user and cut(user, USER_MAX),
        "address": address,
        "what": what,
        "reason": reason,
    }
    _log.log(
        level, "%s %s of %s from %s%s%s",
        outcome, request, who, address, _Whole(what and f" ({what})"), _Whole(reason and f": {reason}"),
        extra={"fields": fields, **({} if is_counted else UNCOUNTED)},
    )  # fmt: skip
