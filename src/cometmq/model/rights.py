"""Rights: who may send a request, and what he must be allowed to do with which resource.

Resources and actions are those of RocketMQ 5.3.3 (ResourceType and Action of its auth module), so that policies
which were written for it mean the same here.
"""

from enum import Enum
from typing import NamedTuple, Protocol

from cometmq.model.names import RETRY_PREFIX, is_written_by_brokers


class Right(Enum):
    """The right that a request needs where no access control is configured."""

    ANYBODY = "anybody"  # Also whoever touches nothing, as a producer's heartbeat.
    READER = "reader"
    WRITER = "writer"
    BROKER = "broker"  # Of a cluster's own brokers, at the nameserver.
    ADMINISTRATOR = "administrator"


class Resource(Enum):
    """The kind of thing that a request touches."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"


class Action(Enum):
    """The action of a request on a resource."""

    PUB = "Pub"
    SUB = "Sub"
    GET = "Get"
    LIST = "List"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"


# The name of an access that is about all resources of its kind; a cluster's is the server's own.
ANY_NAME = "*"


class Access(NamedTuple):
    """One thing that a request does: it is allowed where any of the actions is.

    Attributes:
        resource: the kind of what it touches.
        name: of the topic or group, or `ANY_NAME`.
        actions: any of them is enough.
        shows_messages: whether it gives bodies of messages, and not only facts about a topic.
    """

    resource: Resource
    name: str
    actions: frozenset[Action]
    shows_messages: bool = False


def needs_its_name(access: Access) -> bool:
    """Whether only a right to this very topic allows an access, and no right to all topics or to a prefix.

    Messages of every topic wait in the topics of the broker itself.
    """
    return (
        access.resource is Resource.TOPIC
        and (access.shows_messages or Action.SUB in access.actions)
        and is_written_by_brokers(access.name)
    )


def topic_access(
    name: str, actions: frozenset[Action], *, shows_messages: bool = False
) -> Access:
    """The access to a topic; a retry topic is its group's, and members of the group write to it."""
    if name.startswith(RETRY_PREFIX):
        group_name = name.removeprefix(RETRY_PREFIX)
        of_group = {Action.SUB if action is Action.PUB else action for action in actions}
        return Access(Resource.GROUP, group_name, frozenset(of_group), shows_messages)
    return Access(Resource.TOPIC, name, actions, shows_messages)


class Asker(Protocol):
    """The sender of a request, at its address.

    An asker may be kept: its answers follow the rights that are in force at the moment of the question.
    """

    @property
    def name(self) -> str:
        """The user's name."""
        ...

    @property
    def is_super(self) -> bool:
        """Whether the asker may do everything."""
        ...

    @property
    def is_known(self) -> bool:
        """Whether the server would still answer this user."""
        ...

    def may(self, access: Access, right: Right) -> bool:
        """Return whether the asker may do something by a request of this right."""
        ...


class _Same(NamedTuple):
    """An asker whose rights never change."""

    name: str
    is_super: bool
    is_known: bool = True

    def may(self, _access: Access, _right: Right) -> bool:
        return self.is_super


# The asker at a server without access control, and the server itself.
EVERYBODY: Asker = _Same("nobody who is known", is_super=True)
# The sender of a request that needs no signature although access control is on. It has no right.
NOBODY: Asker = _Same("nobody who is known", is_super=False, is_known=False)
