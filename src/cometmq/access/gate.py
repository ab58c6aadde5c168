"""The gate with access control: checks who sends a request, and that he may do all that it does.

Whoever cannot show who he is learns nothing but that: an unknown user, a disabled one and a wrong signature have one answer and cost
the same work. What is refused has a line in the log `cometmq.audit`, which holds no secret; lines of a kind are bounded and
counted as all others (process.program_log).
"""

import hmac
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from cometmq.access.login_failures import (
    ADDRESS_FAILURES_MAX,
    FAILURES_MAX,
    LoginFailures,
)
from cometmq.access.user import User, UserTable
from cometmq.codec.remoting import Command, RawCommand
from cometmq.codec.signature import (
    ACCESS_KEY,
    SIGNATURE,
    UNIQUE_KEY_QUERY,
    signature,
    signed_content,
)
from cometmq.kernel import KnownSigner
from cometmq.model.codes import ResponseCode, request_name
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.frozen import dataclass
from cometmq.model.names import NAME_BYTES_MAX
from cometmq.model.rights import EVERYBODY, NOBODY, Access, Action, Asker, Right
from cometmq.model.text import cut, printable
from cometmq.net.peer import Peer
from cometmq.net.requests import RequestRule
from cometmq.wire.connection import LARGE_FRAME_SIZE

_audit = logging.getLogger("cometmq.audit")

# For whoever is not known: nobody has it.
_NOBODYS_SECRET = os.urandom(20)
# The topic of the sends, which alone are taken as bytes: of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE, of SEND_MESSAGE.
_TOPIC_FIELDS = ("b", "topic")
# Users at their addresses who send as bytes, and topics of each; what is beyond that is asked about again.
_SIGNERS_MAX = _TOPICS_MAX = 256
_CHANGES = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})
# Of a name from a request, in a remark and in the audit log, characters.
_NAME_MAX = 128

_UNSIGNED = "this server asks who sends, and the request names no access key: give the client credentials (mqadmin: tools.yml)"
_STRANGER = (
    "no known user has signed this: see that the access key is known and enabled here, and that both sides "
    "have the same secret key"
)
_TOO_MANY = (
    f"{FAILURES_MAX} signatures of this access key, or {ADDRESS_FAILURES_MAX} of any, were wrong from this address; "
    "others are not looked at for a minute"
)
_IN_THE_CLEAR = (
    "what an administrator changes from another machine is taken over TLS only, since who hears a signature can use it "
    "again; use TLS, or set adminWithoutTls=true"
)


class UsersInForce(Protocol):
    """A source of a server's users.

    Attributes:
        current: all of them, as they are now.
    """

    @property
    def current(self) -> UserTable: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class KnownAsker:
    """A user at an address; it is looked up each time, so that what is withdrawn is gone at once.

    Attributes:
        users: The server's.
        name: The user's.
        ip: The address.
    """

    users: UsersInForce
    name: str
    ip: str

    @property
    def user(self) -> User | None:
        """The user as it is now; None: it is gone or disabled."""
        user = self.users.current.find(self.name)
        return user if user is not None and user.is_enabled else None

    @property
    def is_super(self) -> bool:
        """See `Asker`."""
        user = self.user
        return user is not None and user.is_super

    @property
    def is_known(self) -> bool:
        """See `Asker`."""
        return self.user is not None

    def may(self, access: Access, right: Right) -> bool:
        """See `Asker`."""
        user = self.user
        return user is not None and user.may(access, right, self.ip)


@dataclass(frozen=True, slots=True)
class WhiteAsker:
    """Somebody at an address that need not sign: everything is allowed for as long as the address is white.

    Attributes:
        users: The server's.
        ip: The address.
        name: What the audit calls it.
    """

    users: UsersInForce
    ip: str
    name: str = EVERYBODY.name

    @property
    def is_super(self) -> bool:
        """See `Asker`."""
        return self.users.current.is_unasked(self.ip)

    is_known = is_super

    def may(self, _access: Access, _right: Right) -> bool:
        """See `Asker`."""
        return self.is_super


class AccessGate:
    """Lets pass what a user has signed and may do."""

    def __init__(
        self,
        users: UsersInForce,
        *,
        is_admin_without_tls: bool = False,
        failures: LoginFailures | None = None,
    ) -> None:
        """Changes by administrators of other machines need TLS, or `is_admin_without_tls`.

        `failures` count wrong signatures of other machines, also behind a good one; without them nobody does.
        """
        self._users = users
        self._failures = failures
        self._is_admin_without_tls = is_admin_without_tls
        # By name and address; a user who changes is another object, of which nothing is known.
        self._signers: dict[tuple[str, str], tuple[User, KnownSigner]] = {}

    def is_asked(self, _rule: RequestRule) -> bool:
        """Every request is."""
        return True

    def check(self, rule: RequestRule, request: Command | RawCommand, peer: Peer) -> Asker:
        """Ask who sent a request, check that he may, and return him.

        Raises:
            RequestError: NO_PERMISSION: he may not, or is nobody.
            CodecError: what the request touches cannot be read.
        """
        table = self._users.current
        if table.is_unasked(peer.ip):
            return WhiteAsker(self._users, peer.ip)
        if self._is_open(table, rule, peer):
            # The records that such a request finds are as open as it is. Nothing else follows from it.
            if rule.is_asked_again:
                return EVERYBODY
            found = self._signer(table, request, peer)
            return NOBODY if isinstance(found, str) else self._asker(found, peer)
        user = self._signer(table, request, peer)
        if isinstance(user, str):
            raise _refused(rule, peer, None, user)
        return self._checked(rule, request, table, user, peer)

    def _checked(
        self,
        rule: RequestRule,
        request: Command | RawCommand,
        table: UserTable,
        user: User,
        peer: Peer,
    ) -> Asker:
        """Check that a user may do what a request does."""
        asker = self._asker(user, peer)
        is_admins = rule.right is Right.ADMINISTRATOR
        is_free = user.is_super or table.is_right_spared(rule.code)
        if is_free and not is_admins:
            return asker
        touched = rule.accesses(request[6], request[7])
        if not is_free:
            if not (touched or rule.is_asked_again or rule.right is Right.ANYBODY):
                raise _refused(
                    rule, peer, user, "the request names nothing that a right could be for"
                )
            for access in touched:
                if not user.may(access, rule.right, peer.ip):
                    raise _refused(
                        rule,
                        peer,
                        user,
                        f"no right {_said(access)}; grant it, or ask as another user",
                    )
        if (
            is_admins
            and not (peer.is_on_own_machine or peer.is_encrypted or self._is_admin_without_tls)
            and any(access.actions & _CHANGES for access in touched)
        ):
            raise _refused(rule, peer, user, _IN_THE_CLEAR)
        return asker

    def _asker(self, user: User, peer: Peer) -> Asker:
        """The asker that a user is at a connection, where it is the one who signed last from now on."""
        asker = peer.signed_by
        if asker is None or asker.name != user.name:
            asker = peer.signed_by = KnownAsker(self._users, user.name, peer.ip)
        return asker

    def signer_of(self, peer: Peer) -> KnownSigner | None:
        """See `ByteGate`: who asked last on a connection, while he is a user who may ask.

        Whoever has not signed there yet, has changed his name, or may not, is asked one by one (`check`), as is a send that is
        unusual: so nothing is decided here that `check` would not.
        """
        last = peer.signed_by
        if last is None or not peer.has_signed:
            return None
        user = self._users.current.find(last.name)
        if user is None or not user.is_enabled:
            return None
        known = self._signers.get((user.name, peer.ip))
        if known is None or known[0] is not user:
            if len(self._signers) >= _SIGNERS_MAX:
                self._signers.clear()
            known = user, KnownSigner(user.name.encode(), user.secret)
            self._signers[user.name, peer.ip] = known
        return known[1]

    def may_send(
        self, rules: Sequence[RequestRule], topic: bytes, signer: KnownSigner, peer: Peer
    ) -> bool:
        """See `ByteGate`: as `check` would by each of the rules."""
        last, table = peer.signed_by, self._users.current
        user = None if last is None else table.find(last.name)
        if user is None or not all(
            _may_send(user, table, rule, topic, peer.ip) for rule in rules
        ):
            return False
        if len(topic) > NAME_BYTES_MAX:
            return False  # No topic has such a name.
        if len(signer.topics) >= _TOPICS_MAX:
            signer.topics.clear()
        signer.topics.add(topic)
        return True

    def refusal_of_large(self, fields: Mapping[str, str], peer: Peer) -> str | None:
        """The reason to refuse a large frame before somebody has signed here; None: it is taken."""
        table, name = self._users.current, fields.get(ACCESS_KEY)
        user = table.find(name) if isinstance(name, str) else None
        # A client's first request may be a large message, and its signature is one of all of it. So a known name is enough
        # to be read, until signatures of that address were wrong too often.
        is_guessed = user is not None and self._is_guessed(peer, user.name)
        is_known = user is not None and user.is_enabled and not is_guessed
        if is_known or table.is_unasked(peer.ip):
            return None
        return f"a frame of more than {LARGE_FRAME_SIZE} bytes, and nobody who is known has signed on this connection"

    def _is_guessed(self, peer: Peer, name: str) -> bool:
        """Return whether too many signatures of a name were wrong; never of the user who signed last on this connection."""
        if self._failures is None or peer.is_on_own_machine:
            return False
        signed_by = peer.signed_by
        if peer.has_signed and signed_by is not None and signed_by.name == name:
            return False
        return self._failures.is_too_many(peer.network, name)

    @staticmethod
    def _is_open(table: UserTable, rule: RequestRule, peer: Peer) -> bool:
        """Whether nobody is asked for: what only its own machine may do without access control, it alone may do so."""
        is_others = rule.right in (Right.ADMINISTRATOR, Right.BROKER)
        return table.is_open(rule.code) and (peer.is_on_own_machine or not is_others)

    def _signer(
        self, table: UserTable, request: Command | RawCommand, peer: Peer
    ) -> User | str:
        """Return the user who signed a request, or why none did."""
        fields, body = request[6], request[7]
        name: object = fields.get(ACCESS_KEY)
        if not name:
            return _UNSIGNED
        user = table.find(name) if isinstance(name, str) else None
        if user is not None and not user.is_enabled:
            user = None
        if user is not None and table.is_unsigned(user, peer.ip):
            return user
        if self._is_guessed(peer, str(name)):
            return _TOO_MANY
        secret = _NOBODYS_SECRET if user is None else user.secret
        if not _is_signed(secret, fields, body) or user is None:
            if self._failures is not None and not peer.is_on_own_machine:
                self._failures.note(peer.network, str(name))
            return _STRANGER
        peer.has_signed = True
        return user


def _may_send(user: User, table: UserTable, rule: RequestRule, topic: bytes, ip: str) -> bool:
    """Whether a user may send to a topic with the requests of a rule."""
    if rule.right is Right.ADMINISTRATOR:
        return False
    if user.is_super or table.is_right_spared(rule.code):
        return True
    touched = rule.accesses(dict.fromkeys(_TOPIC_FIELDS, topic.decode()), b"")
    return bool(touched) and all(user.may(each, rule.right, ip) for each in touched)


def _is_signed(secret: bytes, fields: dict[str, str], body: bytes) -> bool:
    """Whether the signature of a request was made with this secret."""
    try:
        given = fields.get(SIGNATURE, "").encode()
        if hmac.compare_digest(given, signature(secret, signed_content(fields, body))):
            return True
        if UNIQUE_KEY_QUERY not in fields:
            return False
        content = signed_content(fields, body, without=UNIQUE_KEY_QUERY)
        return hmac.compare_digest(given, signature(secret, content))
    except (CodecError, AttributeError, UnicodeEncodeError):
        return False  # A field that is no text: a signer has none.


def _said(access: Access) -> str:
    actions = " or ".join(sorted(action.value for action in access.actions))
    return f"{actions} on {access.resource.value} {_shown(access.name)}"


def _shown(name: str) -> str:
    return cut(printable(name), _NAME_MAX)


def _refused(rule: RequestRule, peer: Peer, user: User | None, why: str) -> RequestError:
    code = request_name(rule.code)
    who = "nobody who is known" if user is None else _shown(user.name)
    _audit.warning("refused %s of %s from %s: %s", code, who, peer.address, why)
    said = f"{code} of user {who} from {peer.ip}" if user is not None else code
    return RequestError(ResponseCode.NO_PERMISSION, f"{said}: {why}")
