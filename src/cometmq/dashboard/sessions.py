"""Sessions: who is logged in, on the server; a machine without a clock of its own.

The browser has a random number; here stands only its hash, so that a memory image gives nobody a session.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from cometmq.client import Credentials
from cometmq.dashboard.passwords import Role

SESSIONS_MAX = 1000
SESSIONS_OF_USER_MAX = 50
IDLE_MS_MAX = 2 * 3600 * 1000
AGE_MS_MAX = 12 * 3600 * 1000
# Forms that were sent, remembered of a session; an older one is refused by the session's age or its number here.
_SENT_MAX = 512
_NOTES_MAX = 8


@dataclass(slots=True)
class Session:
    """A user who is logged in.

    Attributes:
        user: his name.
        role: what he may do.
        csrf: what his forms carry.
        stamp: what his entry in the file of users said; another one ends the session.
        credentials: what his requests are signed with, of a user of the cluster; else None.
        begun_ms: when he logged in, ms since 1970.
        seen_ms: when he asked for a page last.
        checked_ms: of a user of the cluster: when the cluster knew him last.
        notes: what the next page says: (is it well, text).
    """

    user: str
    role: Role
    csrf: str
    stamp: str
    credentials: Credentials | None
    begun_ms: int
    seen_ms: int
    checked_ms: int = 0
    notes: list[tuple[bool, str]] = field(default_factory=list)
    _sent: OrderedDict[str, None] = field(default_factory=OrderedDict)

    @property
    def is_admin(self) -> bool:
        """Whether the user may change things."""
        return self.role is Role.ADMIN

    @property
    def is_of_cluster(self) -> bool:
        """Whether the session is that of a user of the cluster."""
        return self.credentials is not None

    def has_token(self, token: str) -> bool:
        """Whether a form is one of this session."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.csrf.encode())

    def take_form(self, number: str) -> bool:
        """Whether the form with this number is sent for the first time; it counts as sent from now on."""
        if number in self._sent:
            return False
        self._sent[number] = None
        if len(self._sent) > _SENT_MAX:
            self._sent.popitem(last=False)
        return True

    def note(self, text: str, *, is_well: bool = True) -> None:
        """Say something on the next page."""
        del self.notes[: -_NOTES_MAX + 1]
        self.notes.append((is_well, text))

    def take_notes(self) -> list[tuple[bool, str]]:
        """Take the notes to be shown now; they are shown once."""
        said, self.notes = self.notes, []
        return said


class Sessions:
    """All sessions."""

    def __init__(self) -> None:
        self._by_hash: OrderedDict[bytes, Session] = OrderedDict()

    def __len__(self) -> int:
        """The number of sessions, with ended ones that nobody has asked for since."""
        return len(self._by_hash)

    def begin(
        self,
        user: str,
        role: Role,
        now_ms: int,
        *,
        stamp: str = "",
        credentials: Credentials | None = None,
    ) -> str:
        """Log a user in; the number for his browser."""
        token = secrets.token_urlsafe(32)
        self._by_hash[_hashed(token)] = Session(
            user, role, secrets.token_urlsafe(32), stamp, credentials, now_ms, now_ms, now_ms
        )
        own = [key for key, each in self._by_hash.items() if each.user == user]
        for key in own[:-SESSIONS_OF_USER_MAX]:
            del self._by_hash[key]
        while len(self._by_hash) > SESSIONS_MAX:
            self._by_hash.popitem(last=False)
        return token

    def find(self, token: str, now_ms: int, *, is_person: bool = True) -> Session | None:
        """The session of a browser's number; a part of a page that renews itself is no person."""
        key = _hashed(token)
        session = self._by_hash.get(key)
        if session is None:
            return None
        idle_ms, age_ms = now_ms - session.seen_ms, now_ms - session.begun_ms
        if idle_ms > IDLE_MS_MAX or age_ms > AGE_MS_MAX:
            del self._by_hash[key]
            return None
        if is_person:
            session.seen_ms = now_ms
            self._by_hash.move_to_end(key)
        return session

    def end(self, token: str) -> None:
        """Log out."""
        self._by_hash.pop(_hashed(token), None)

    def drop_ended(self, now_ms: int) -> None:
        """Forget sessions whose time is over, with the secrets that they hold."""
        for key, each in list(self._by_hash.items()):
            if now_ms - each.seen_ms > IDLE_MS_MAX or now_ms - each.begun_ms > AGE_MS_MAX:
                del self._by_hash[key]

    def has_credentials(self, credentials: Credentials) -> bool:
        """Whether somebody who is logged in signs so."""
        return any(each.credentials == credentials for each in self._by_hash.values())


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
