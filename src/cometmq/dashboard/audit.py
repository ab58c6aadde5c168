"""The audit file: who changed what, when and with what outcome, a line of JSON each.

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
    """One line of the audit: an action of a user, and how it ended.

    Attributes:
        ms: when, since 1970.
        user: who.
        address: where from.
        action: what was asked for.
        subject: of which topic, group, message or user.
        outcome: "done", or why not.
    """

    ms: int
    user: str
    address: str
    action: str
    subject: str
    outcome: str


class Audit:
    """The file with the actions of all users, and the last of them in memory.

    Args:
        data_dir: where the file lies.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE_NAME
        self._last: deque[AuditEntry] = deque(maxlen=KEPT)

    def open(self) -> None:
        """Read what was done before; a line that is damaged is passed over.

        Raises:
            OSError: the file cannot be read or written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (self._path.with_suffix(".1.jsonl"), self._path):
            if path.exists():
                with path.open("rb") as file:
                    self._last.extend(each for line in file if (each := _read(line)))

    def last(self) -> list[AuditEntry]:
        """The newest first."""
        return list(reversed(self._last))

    def write(self, action: AuditEntry) -> None:
        """Keep an action.

        Raises:
            OSError: the file cannot be written; it stands among the last all the same.
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
