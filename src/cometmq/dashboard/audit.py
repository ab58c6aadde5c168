"""The dashboard's audit file: one JSON line for each logged action of a user, with its time and outcome.

{"ms": 1795520000000, "user": "admin", "from": "127.0.0.1", "action": "delete topic", "of": "orders", "outcome": "done"}
"""

import json
import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

FILE_NAME = "audit.jsonl"
KEPT = 1000
_FILE_SIZE_MAX = 10 << 20
_TEXT_MAX = 500


class AuditEntry(NamedTuple):
    """One line of the audit: an action of a user, and its outcome.

    Attributes:
        ms: Time of the action, ms since 1970.
        user: Name of the user.
        address: IP address of the user's browser, or of an unknown proxy before it; or "?".
        action: The requested action, for example "delete topic".
        subject: What the action concerns, such as the name of a topic; may be empty.
        outcome: "done", or why the action failed or was refused.
    """

    ms: int
    user: str
    address: str
    action: str
    subject: str
    outcome: str


class Audit:
    """The audit file in a data folder, with its last 1,000 entries in memory."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE_NAME
        self._last: deque[AuditEntry] = deque(maxlen=KEPT)

    def open(self) -> None:
        """Create the folder if missing, and load the last 1,000 entries, skipping damaged lines. May raise OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (self._path.with_suffix(".1.jsonl"), self._path):
            if path.exists():
                with path.open("rb") as file:
                    self._last.extend(each for line in file if (each := _read(line)))

    def last(self) -> list[AuditEntry]:
        """Return the last entries of the audit, at most 1,000, newest first."""
        return list(reversed(self._last))

    def write(self, action: AuditEntry) -> None:
        """Append an entry to the file, with texts cut to 500 characters.

        If the file would exceed 10 MiB, it is first renamed to `audit.1.jsonl`, replacing an older one. Raises OSError
        if writing fails; `last` returns the entry all the same.
        """
        cut = action._replace(
            **{
                name: getattr(action, name)[:_TEXT_MAX]
                for name in ("user", "address", "action", "subject", "outcome")
            }
        )
        self._last.append(cut)
        names = ("ms", "user", "from", "action", "of", "outcome")
        line = json.dumps(dict(zip(names, cut, strict=True))) + "\n"
        self._turn_over(len(line))
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600
        )
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _turn_over(self, more: int) -> None:
        try:
            is_full = self._path.stat().st_size + more > _FILE_SIZE_MAX
        except FileNotFoundError:
            return
        if is_full:
            self._path.replace(self._path.with_suffix(".1.jsonl"))


def _read(line: bytes) -> AuditEntry | None:
    try:
        found = json.loads(line)
        texts = (str(found[name]) for name in ("user", "from", "action", "of", "outcome"))
        return AuditEntry(int(found["ms"]), *texts)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
