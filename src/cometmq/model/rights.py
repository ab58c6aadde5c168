"""Rights: who may send a request, and what he must be allowed to do with which resource.

Resources and actions are those of RocketMQ 5.3.3 (ResourceType and Action of its auth module), so that policies
which were written for it mean the same here.
"""

from enum import Enum
from typing import NamedTuple, Protocol


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
    """

    resource: Resource
    name: str
    actions: frozenset[Action]


class Asker(Protocol):
    """Somebody whose rights are known."""

    @property
    def name(self) -> str:
        """The name that the asker gives himself."""
        ...

    @property
    def is_super(self) -> bool:
        """Whether the asker may do everything."""
        ...

    def may(self, access: Access, right: Right, ip: str) -> bool:
        """Whether the asker may do a thing, by a request of this right from an address."""
        ...
