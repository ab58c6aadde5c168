"""Access control for gRPC calls: the same users and rights as on the remoting port.

A client signs the value of its header x-mq-date-time with its secret key; nothing else of a call is signed, so
anyone who sees one call can send others as this user. Use TLS to prevent that. The time is not compared with the clock,
because clients write it in different forms and time zones.
"""

import hmac
import re
from hashlib import sha1

from cometmq.access.gate import AccessGate, CallSender
from cometmq.model.rights import EVERYBODY, Access, Action, Asker, Resource, Right, topic_access
from cometmq.net.connections import network_of
from cometmq.net.own_machine import is_own_machine, plain_ip
from cometmq.net.requests import GateRefusal
from cometmq.process.audit_log import note
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.statuses import ProxyRefusal

_AUTHORIZATION, _DATE_TIME = "authorization", "x-mq-date-time"
_SIGNED = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=(?P<name>[^,/ ]*)[^, ]*, *SignedHeaders=x-mq-date-time, *Signature=(?P<signature>[0-9a-fA-F]{40})"
)
_HEADER_LENGTH_MAX = 1_024


class OpenGate:
    """The gate without access control: everybody may send any call."""

    def asker_of(self, call: GrpcCall) -> Asker:
        """Return a sender that has all rights."""
        return EVERYBODY

    def check(self, call: GrpcCall, asker: Asker, right: Right, *accesses: Access) -> None:
        """Do nothing: every call is allowed."""


class SignedCallGate(OpenGate):
    """The gate with access control: unless its address is exempt, a call must be signed by a user with the rights."""

    def __init__(self, gate: AccessGate, *, is_own_machine_trusted: bool) -> None:
        """`gate` is that of the remoting port; `is_own_machine_trusted`: whether to recognize local senders."""
        self._gate = gate
        self._is_own_machine_trusted = is_own_machine_trusted

    def asker_of(self, call: GrpcCall) -> Asker:
        """Return the sender of a call, by signature or exempt address, or raise ProxyRefusal (UNAUTHORIZED)."""
        text = call.metadata.get(_AUTHORIZATION, "")[:_HEADER_LENGTH_MAX]
        found = _SIGNED.fullmatch(text.strip())
        name = "" if found is None else found["name"]
        given = "" if found is None else found["signature"].lower()
        signed = call.metadata.get(_DATE_TIME, "").encode(errors="replace")

        def is_signed(secret: bytes) -> bool:
            wanted = hmac.new(secret, signed, sha1).hexdigest()
            return hmac.compare_digest(wanted, given)

        try:
            return self._gate.asker_of_call(name, is_signed, self._sender(call))
        except GateRefusal as error:
            self._note(call, error.user, error.why)
            raise ProxyRefusal(pb.UNAUTHORIZED, error.why) from None

    def _sender(self, call: GrpcCall) -> CallSender:
        ip = plain_ip(call.remote[0])
        is_own = self._is_own_machine_trusted and is_own_machine(ip, plain_ip(call.local[0]))
        return CallSender(ip, network_of(ip, is_own=is_own), is_own)

    def check(self, call: GrpcCall, asker: Asker, right: Right, *accesses: Access) -> None:
        """Raise ProxyRefusal (UNAUTHORIZED) unless the sender of a call has all of these accesses."""
        for access in accesses:
            if not asker.may(access, right):
                actions = " or ".join(sorted(each.value for each in access.actions))
                why = f"no right {actions} on {access.resource.value} {access.name}; grant it, or use another user"
                self._note(call, asker.name, why)
                raise ProxyRefusal(
                    pb.UNAUTHORIZED, f"{call.method} of user {asker.name}: {why}"
                )

    def _note(self, call: GrpcCall, user: str | None, why: str) -> None:
        """Write a refusal into the audit log, where frequent ones may be only counted."""
        host, port = call.remote
        note(
            "refused", call.method, user=user, address=f"{host}:{port}", reason=why,
            is_counted=True,
        )  # fmt: skip


def gate_of(gate: AccessGate | None, *, is_own_machine_trusted: bool) -> OpenGate:
    """Return the gate for gRPC calls; `gate` is that of the remoting port, None without access control."""
    if gate is None:
        return OpenGate()
    return SignedCallGate(gate, is_own_machine_trusted=is_own_machine_trusted)


def topic_accesses(name: str, *actions: Action) -> Access:
    """Return the access to a topic (or a retry topic's group) for which a right to any of these actions suffices."""
    return topic_access(name, frozenset(actions))


def group_access(name: str) -> Access:
    """Return the access to a consumer group that its members need: the action SUB."""
    return Access(Resource.GROUP, name, frozenset({Action.SUB}))
