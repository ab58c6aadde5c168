"""Access control for calls: the same users and rights as on the remoting port.

A client signs the value of its header x-mq-date-time with its secret key; nothing else of a call is signed, so whoever
sees one can send others for this user. Use TLS where that matters.
"""

from cometmq.model.rights import EVERYBODY, Access, Action, Asker, Resource, Right, topic_access
from cometmq.proxy.grpc.calls import GrpcCall


class OpenGate:
    """The gate without access control: everybody may send any call."""

    def asker_of(self, _call: GrpcCall) -> Asker:
        """Return the asker that has all rights."""
        return EVERYBODY

    def check(self, _asker: Asker, _right: Right, *_accesses: Access) -> None:
        """Allow everything."""


def topic_accesses(name: str, *actions: Action) -> Access:
    """Return the access to a topic, or to the group of a retry topic, with any of some actions."""
    return topic_access(name, frozenset(actions))


def group_access(name: str) -> Access:
    """Return the access to a consumer group that its members need."""
    return Access(Resource.GROUP, name, frozenset({Action.SUB}))
