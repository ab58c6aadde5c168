"""Sessions of users who are logged in, kept in the server's memory. They read no clock: callers pass the time.

The browser has a random token. The server keeps only its hash.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from cometmq import Credentials
from cometmq.dashboard.passwords import Role

SESSIONS_MAX = 1000
SESSIONS_OF_USER_MAX = 50
IDLE_MS_MAX = 2 * 3600 * 1000
AGE_MS_MAX = 12 * 3600 * 1000
# Number of submitted forms to remember per session, to refuse them when they are sent again.
_SENT_MAX = 512
_NOTES_MAX = 8


@dataclass(slots=True)
class Session:
    """The session of a user who is logged in to the dashboard.

    Attributes:
        user: Name of the user.
        role: What the user may do.
        csrf: Token that the forms of this session must contain.
        stamp: Role and password hash, at login, of a user of the dashboard's own; empty for a cluster user.
        credentials: Sign the requests of a cluster user; None for a user of the dashboard's own.
        cluster: Name of the cluster of a cluster user; empty for others, and if the dashboard shows only one.
        begun_ms: Time of the login, ms since 1970.
        seen_ms: Time of the login or the last request for a page that was no automatic refresh, ms since 1970.
        checked_ms: Time of the login or the last check that the cluster accepts a cluster user, ms since 1970.
        is_of_proxy: Whether a proxy in front has logged in the user, so that no browser has a token.
        notes: Notes for the next page: (whether it is a success, text).
    """

    user: str
    role: Role
    csrf: str
    stamp: str
    credentials: Credentials | None
    begun_ms: int
    seen_ms: int
    checked_ms: int = 0
    is_of_proxy: bool = False
    cluster: str = ""
    notes: list[tuple[bool, str]] = field(default_factory=list)
    _sent: OrderedDict[str, None] = field(default_factory=OrderedDict)

    @property
    def is_admin(self) -> bool:
        """Whether the user may change things."""
        return self.role is Role.ADMIN

    @property
    def is_of_cluster(self) -> bool:
        """Whether the session is that of a user of the cluster, not one of the dashboard's own."""
        return self.credentials is not None

    def has_token(self, token: str) -> bool:
        """Return whether a form's token is that of this session."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.csrf.encode())

    def take_form(self, number: str) -> bool:
        """Record that the form with this number was submitted; return False if it is among the last 512 already."""
        if number in self._sent:
            return False
        self._sent[number] = None
        if len(self._sent) > _SENT_MAX:
            self._sent.popitem(last=False)
        return True

    def note(self, text: str, *, is_well: bool = True) -> None:
        """Add a note for the next page; beyond 8 notes, the oldest are dropped."""
        del self.notes[: -_NOTES_MAX + 1]
        self.notes.append((is_well, text))

    def take_notes(self) -> list[tuple[bool, str]]:
        """Return the pending notes and forget them, as each is shown once."""
        said, self.notes = self.notes, []
        return said


class Sessions:
    """All sessions of the dashboard, by the hash of their token."""

    def __init__(self) -> None:
        self._by_hash: OrderedDict[bytes, Session] = OrderedDict()
        # No browser can guess the tokens of users whom a proxy logs in.
        self._secret = secrets.token_urlsafe(32)

    def __len__(self) -> int:
        """Return the number of sessions, including expired ones that were not dropped yet."""
        return len(self._by_hash)

    def begin(
        self,
        user: str,
        role: Role,
        now_ms: int,
        *,
        stamp: str = "",
        credentials: Credentials | None = None,
        cluster: str = "",
        token: str | None = None,
    ) -> str:
        """Begin a session and return its token, for the browser; beyond 50 of a user of a cluster or 1,000 end those unused for longest."""
        token = token or secrets.token_urlsafe(32)
        self._by_hash[_hashed(token)] = Session(
            user,
            role,
            secrets.token_urlsafe(32),
            stamp,
            credentials,
            now_ms,
            now_ms,
            now_ms,
            cluster=cluster,
        )
        same = (user, cluster)
        own = [key for key, each in self._by_hash.items() if (each.user, each.cluster) == same]
        for key in own[:-SESSIONS_OF_USER_MAX]:
            del self._by_hash[key]
        while len(self._by_hash) > SESSIONS_MAX:
            self._by_hash.popitem(last=False)
        return token

    def find(self, token: str, now_ms: int, *, is_person: bool = True) -> Session | None:
        """Return the session of a token; None if unknown or expired. With `is_person`, record that it is in use now."""
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

    def of_proxy(
        self, user: str, role: Role, now_ms: int, *, is_person: bool = True
    ) -> tuple[Session, bool]:
        """Return the session of a user whom a proxy has logged in, in all browsers, and whether it begins now."""
        token = f"{self._secret} {role} {user}"
        if (known := self.find(token, now_ms, is_person=is_person)) is not None:
            return known, False
        self.begin(user, role, now_ms, token=token)
        session = self._by_hash[_hashed(token)]
        session.is_of_proxy = True
        return session, True

    def end(self, token: str) -> None:
        """End the session with this token of a browser, if there is one."""
        self._by_hash.pop(_hashed(token), None)

    def drop_ended(self, now_ms: int) -> None:
        """Forget expired sessions."""
        for key, each in list(self._by_hash.items()):
            if now_ms - each.seen_ms > IDLE_MS_MAX or now_ms - each.begun_ms > AGE_MS_MAX:
                del self._by_hash[key]

    def has_credentials(self, credentials: Credentials) -> bool:
        """Return whether a kept session signs with these credentials, even if it has expired meanwhile."""
        return any(each.credentials == credentials for each in self._by_hash.values())


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
