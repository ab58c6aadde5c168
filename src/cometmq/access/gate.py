"""The gate of access control: identifies the sender of a request and checks the required rights.

Unknown users, disabled users and wrong signatures get the same answer after the same work; for a large frame, though,
a sender learns whether the name is that of an enabled user. The audit log (net.audit) has each refusal.
"""

import hmac
import os
from collections.abc import Callable, Mapping, Sequence
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
from cometmq.model.codes import request_name
from cometmq.model.errors import CodecError
from cometmq.model.frozen import dataclass
from cometmq.model.names import NAME_BYTES_MAX
from cometmq.model.rights import EVERYBODY, NOBODY, Access, Asker, Right
from cometmq.model.text import cut, printable
from cometmq.net.peer import Peer
from cometmq.net.requests import CHANGES, GateRefusal, RequestRule
from cometmq.wire.connection import LARGE_FRAME_SIZE

# Checked for unknown names; no user has it.
_NOBODYS_SECRET = os.urandom(20)
# Field with the topic in SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE, and in SEND_MESSAGE; only these use the fast path.
_TOPIC_FIELDS = ("b", "topic")
# Cached users (with address) on the fast path, and topics per user; the caches are cleared when full.
_SIGNERS_MAX = _TOPICS_MAX = 256
# Maximum characters of a name in remarks.
_NAME_MAX = 128

_UNSIGNED = "this server requires signed requests, but the request has no access key: give the client credentials (mqadmin: tools.yml)"
_STRANGER = (
    "the signature is not that of a known user: check that the access key exists and is enabled here, and that both "
    "sides have the same secret key"
)
_TOO_MANY = (
    f"{FAILURES_MAX} signatures of this access key, or {ADDRESS_FAILURES_MAX} of any key, from this address were "
    "wrong; its requests are refused for one minute"
)
_IN_THE_CLEAR = (
    "changes by an administrator on another machine are only accepted over TLS, because whoever records a signature "
    "can use it again; use TLS, or set adminWithoutTls=true"
)


class UsersInForce(Protocol):
    """The interface of a source of the current users of a server."""

    @property
    def current(self) -> UserTable: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class CallSender:
    """The address that a call comes from.

    Attributes:
        ip: The IP address, as `net.own_machine.plain_ip` writes it.
        network: The network that wrong signatures count towards (`net.connections`).
        is_on_own_machine: Whether it is on this machine and this machine is trusted.
    """

    ip: str
    network: str
    is_on_own_machine: bool


@dataclass(frozen=True, slots=True)
class KnownAsker:
    """A user at an address, looked up on each use so that changes of rights apply immediately."""

    users: UsersInForce
    name: str
    ip: str

    @property
    def user(self) -> User | None:
        """The current user; None if deleted or disabled."""
        user = self.users.current.find(self.name)
        return user if user is not None and user.is_enabled else None

    @property
    def is_super(self) -> bool:
        """Whether the user may currently do everything."""
        user = self.user
        return user is not None and user.is_super

    @property
    def is_known(self) -> bool:
        """Whether the user still exists and is enabled."""
        return self.user is not None

    def may(self, access: Access, right: Right) -> bool:
        """Return whether the user may currently make an access in a request that requires `right`."""
        user = self.user
        return user is not None and user.may(access, right, self.ip)


@dataclass(frozen=True, slots=True)
class WhiteAsker:
    """A sender at an address that need not sign; may do everything while the address is on the white list."""

    users: UsersInForce
    ip: str
    name: str = EVERYBODY.name

    @property
    def is_super(self) -> bool:
        """Whether the address is still on the white list."""
        return self.users.current.is_unasked(self.ip)

    is_known = is_super

    def may(self, _access: Access, _right: Right) -> bool:
        """Return whether the address is still on the white list."""
        return self.is_super


class AccessGate:
    """The gate: allows requests that a user has signed and may send, and those that settings exempt from this."""

    def __init__(
        self,
        users: UsersInForce,
        *,
        is_admin_without_tls: bool = False,
        failures: LoginFailures | None = None,
    ) -> None:
        """Set the users, and whether administrators on other machines may change things without TLS.

        `failures` counts wrong signatures from other machines; without it, their number is not limited.
        """
        self._users = users
        self._failures = failures
        self._is_admin_without_tls = is_admin_without_tls
        # By name and address; a changed user is a new object and invalidates its entry.
        self._signers: dict[tuple[str, str], tuple[User, KnownSigner]] = {}

    def is_asked(self, _rule: RequestRule) -> bool:
        """Return True, because the gate checks the requests of all codes."""
        return True

    def check(self, rule: RequestRule, request: Command | RawCommand, peer: Peer) -> Asker:
        """Check that the sender of a request may send it, and return an `Asker`, whose rights apply to the request.

        A wrong signature is counted, unless it comes from this machine.

        Raises:
            GateRefusal: The sender may not send it, or is unknown and the request code is not open.
            CodecError: The resources of the request cannot be decoded.
        """
        table = self._users.current
        if table.is_unasked(peer.ip):
            return WhiteAsker(self._users, peer.ip)
        if self._is_open(table, rule, peer):
            # The records found by such a request are as open as the request; nothing else is granted.
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
        """Return the user as an `Asker` if the user may send the request; raise GateRefusal or CodecError if not."""
        asker = self._asker(user, peer)
        is_admins = rule.right is Right.ADMINISTRATOR
        is_free = user.is_super or table.is_right_spared(rule.code)
        if is_free and not is_admins:
            return asker
        touched = rule.accesses(request[6], request[7])
        if not is_free:
            if not (touched or rule.is_asked_again or rule.right is Right.ANYBODY):
                raise _refused(
                    rule,
                    peer,
                    user,
                    "the request names no resource that a right could be granted for",
                )
            for access in touched:
                if not user.may(access, rule.right, peer.ip):
                    raise _refused(
                        rule,
                        peer,
                        user,
                        f"no right {_said(access)}; grant it, or use another user",
                    )
        if (
            is_admins
            and not (peer.is_on_own_machine or peer.is_encrypted or self._is_admin_without_tls)
            and any(access.actions & CHANGES for access in touched)
        ):
            raise _refused(rule, peer, user, _IN_THE_CLEAR)
        return asker

    def _asker(self, user: User, peer: Peer) -> Asker:
        """Return the identity (`Asker`) of a user on a connection, and remember it as the connection's last user."""
        asker = peer.signed_by
        if asker is None or asker.name != user.name:
            asker = peer.signed_by = KnownAsker(self._users, user.name, peer.ip)
        return asker

    def signer_of(self, peer: Peer) -> KnownSigner | None:
        """Return the last user of a connection for the fast path; None without a valid signature on it, or if not enabled now.

        Unsigned connections, other users and unusual sends use `check`; this never allows more than that.
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
        """Return whether `check` would allow the connection's last user to send to a topic under each rule.

        False if that is not certain. If True, the topic is added to those that `signer` may send to.
        """
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
        """Return why to refuse a large frame; None for a white address, or if it names an enabled, unblocked user."""
        table, name = self._users.current, fields.get(ACCESS_KEY)
        user = table.find(name) if isinstance(name, str) else None
        # A client's first request may be a large message, and its signature covers all of it. A known name is therefore
        # enough to read it, unless the address has sent too many wrong signatures.
        is_guessed = user is not None and self._is_guessed(peer, user.name)
        is_known = user is not None and user.is_enabled and not is_guessed
        if is_known or table.is_unasked(peer.ip):
            return None
        return f"a frame of more than {LARGE_FRAME_SIZE} bytes is only accepted after a known user has signed a request on this connection"

    def _is_guessed(self, peer: Peer, name: str) -> bool:
        """Return whether an address, or this name there, has too many wrong signatures.

        False for this machine, for the last user who signed on the connection, and if nothing is counted.
        """
        if self._failures is None or peer.is_on_own_machine:
            return False
        signed_by = peer.signed_by
        if peer.has_signed and signed_by is not None and signed_by.name == name:
            return False
        return self._failures.is_too_many(peer.network, name)

    def asker_of_call(
        self, name: str, is_signed: Callable[[bytes], bool], sender: CallSender
    ) -> Asker:
        """Return the sender of a call of another protocol, which signs each call on its own; count a wrong signature.

        Args:
            name: The user (access key) that the call names; may be empty.
            is_signed: Returns whether the call is signed with a secret key.
            sender: The address that the call comes from.

        Raises:
            GateRefusal: The address is not exempt, and either the call names no enabled user, or that user must sign
                there and the signature is wrong, or too many of this name or address were.
        """
        table, ip = self._users.current, sender.ip
        if table.is_unasked(ip):
            return WhiteAsker(self._users, ip)
        if not name:
            raise GateRefusal(_UNSIGNED)
        user = table.find(name)
        if user is not None and not user.is_enabled:
            user = None
        if user is None or not table.is_unsigned(user, ip):
            counts = self._failures if not sender.is_on_own_machine else None
            if counts is not None and counts.is_too_many(sender.network, name):
                raise GateRefusal(_TOO_MANY, user=name)
            secret = _NOBODYS_SECRET if user is None else user.secret
            if not is_signed(secret) or user is None:
                if counts is not None:
                    counts.note(sender.network, name)
                raise GateRefusal(_STRANGER, user=name)
        return KnownAsker(self._users, user.name, ip)

    @staticmethod
    def _is_open(table: UserTable, rule: RequestRule, peer: Peer) -> bool:
        """Return whether a request code is open; requests of administrators and brokers are open only to this machine."""
        is_others = rule.right in (Right.ADMINISTRATOR, Right.BROKER)
        return table.is_open(rule.code) and (peer.is_on_own_machine or not is_others)

    def _signer(
        self, table: UserTable, request: Command | RawCommand, peer: Peer
    ) -> User | str:
        """Return the user who signed a request or need not, or why there is none.

        A valid signature is noted at the peer; a wrong one is counted, unless it comes from this machine.
        """
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
    if rule.right is Right.ADMINISTRATOR:
        return False
    if user.is_super or table.is_right_spared(rule.code):
        return True
    touched = rule.accesses(dict.fromkeys(_TOPIC_FIELDS, topic.decode()), b"")
    return bool(touched) and all(user.may(each, rule.right, ip) for each in touched)


def _is_signed(secret: bytes, fields: dict[str, str], body: bytes) -> bool:
    try:
        given = fields.get(SIGNATURE, "").encode()
        if hmac.compare_digest(given, signature(secret, signed_content(fields, body))):
            return True
        if UNIQUE_KEY_QUERY not in fields:
            return False
        content = signed_content(fields, body, without=UNIQUE_KEY_QUERY)
        return hmac.compare_digest(given, signature(secret, content))
    except (CodecError, AttributeError, UnicodeEncodeError):
        return False  # A field is no text, number or boolean.


def _said(access: Access) -> str:
    actions = " or ".join(sorted(action.value for action in access.actions))
    return f"{actions} on {access.resource.value} {_shown(access.name)}"


def _shown(name: str) -> str:
    return cut(printable(name), _NAME_MAX)


def _refused(rule: RequestRule, peer: Peer, user: User | None, why: str) -> GateRefusal:
    code = request_name(rule.code)
    if user is None:
        return GateRefusal(f"{code}: {why}", why=why)
    remark = f"{code} of user {_shown(user.name)} from {peer.ip}: {why}"
    return GateRefusal(remark, user=user.name, why=why)
