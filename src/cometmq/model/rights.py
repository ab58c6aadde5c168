"""Rights: who may send a request, and which access to which resource it needs.

Resources and actions have names of RocketMQ 5.3.3 (ResourceType, Action); its policies mean mostly the same here.
"""

from enum import Enum
from typing import NamedTuple, Protocol

from cometmq.model.names import RETRY_PREFIX, is_written_by_brokers


class Right(Enum):
    """The right that a request needs besides its accesses: ANYBODY, READER, WRITER, BROKER or ADMINISTRATOR."""

    ANYBODY = "anybody"  # Even without access to any resource, as a producer's heartbeat.
    READER = "reader"
    WRITER = "writer"
    BROKER = "broker"  # Of the cluster's own brokers, at the nameserver.
    ADMINISTRATOR = "administrator"


class Resource(Enum):
    """The kind of resource that a request touches: TOPIC, GROUP or CLUSTER."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"


class Action(Enum):
    """The action of a request on a resource: PUB, SUB, GET, LIST, CREATE, UPDATE or DELETE."""

    PUB = "Pub"
    SUB = "Sub"
    GET = "Get"
    LIST = "List"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"


# Name in an access that concerns all resources of its kind; for clusters, the server's own.
ANY_NAME = "*"


class Access(NamedTuple):
    """An access of a request to a resource; a right to any of the actions usually suffices.

    Attributes:
        name: Name of the topic, group or cluster, or `ANY_NAME`.
        shows_messages: Whether the answer contains messages, and not only facts about a topic.
    """

    resource: Resource
    name: str
    actions: frozenset[Action]
    shows_messages: bool = False


def needs_its_name(access: Access) -> bool:
    """Return whether an access reads messages of a topic that only brokers write, and so needs a right to this exact name.

    A user's right to all topics or a prefix does not suffice, because internal topics may hold messages of other ones.
    """
    return (
        access.resource is Resource.TOPIC
        and (access.shows_messages or Action.SUB in access.actions)
        and is_written_by_brokers(access.name)
    )


def topic_access(
    name: str, actions: frozenset[Action], *, shows_messages: bool = False
) -> Access:
    """Return the `Access` to a topic; "%RETRY%name" becomes the access to the group "name", with SUB instead of PUB."""
    if name.startswith(RETRY_PREFIX):
        group_name = name.removeprefix(RETRY_PREFIX)
        of_group = {Action.SUB if action is Action.PUB else action for action in actions}
        return Access(Resource.GROUP, group_name, frozenset(of_group), shows_messages)
    return Access(Resource.TOPIC, name, actions, shows_messages)


class Asker(Protocol):
    """The sender of a request and its current rights, as access control sees it."""

    @property
    def name(self) -> str:
        """Name of the user, or "an unauthenticated user"."""
        ...

    @property
    def is_super(self) -> bool:
        """Whether the sender may do everything."""
        ...

    @property
    def is_known(self) -> bool:
        """Whether the server still accepts this sender."""
        ...

    def may(self, access: Access, right: Right) -> bool:
        """Return whether the sender has an access in a request that needs the given right."""
        ...


class _Same(NamedTuple):
    """A sender who has all rights, or none, whatever the request."""

    name: str
    is_super: bool
    is_known: bool = True

    def may(self, _access: Access, _right: Right) -> bool:
        return self.is_super


# The asker on a server without access control, and the server itself.
EVERYBODY: Asker = _Same("an unauthenticated user", is_super=True)
# The sender of an unsigned request that access control lets pass without a signature; has no rights.
NOBODY: Asker = _Same("an unauthenticated user", is_super=False, is_known=False)
