"""The resources that requests name in their body, or several in one field."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from cometmq.codec.bodies.assignment import decode_assignment_query
from cometmq.codec.bodies.batch_ack import decode_batch_ack
from cometmq.codec.bodies.client_config import client_config_group, decode_client_config
from cometmq.codec.bodies.group_config import decode_group_config, decode_group_configs
from cometmq.codec.bodies.heartbeat import decode_heartbeat
from cometmq.codec.bodies.lock import decode_lock_request
from cometmq.codec.bodies.topic_config import decode_topic_configs
from cometmq.model.rights import Access, Action, Resource, topic_access
from cometmq.net.requests import Finder, said

# Topics and groups of a body.
_Names = tuple[Iterable[str], Iterable[str]]


def _in_body(what: str, read: Callable[[bytes], _Names], *actions: Action) -> Finder:
    wanted = frozenset(actions)

    def find(_fields: Mapping[str, str], body: bytes) -> Iterator[Access]:
        topics, groups = read(body)
        # A name once, however often it is said.
        yield from (topic_access(name, wanted) for name in dict.fromkeys(topics))
        yield from (Access(Resource.GROUP, name, wanted) for name in dict.fromkeys(groups))

    return Finder(said(what, "of the body", actions), find)


def of_heartbeat(*actions: Action) -> Finder:
    """A heartbeat's consumer groups, and the topics that they want."""

    def read(body: bytes) -> _Names:
        parts = decode_heartbeat(body).consumers
        topics = [wanted.topic for part in parts for wanted in part.subscriptions]
        return topics, [part.group for part in parts]

    return _in_body("each wanted topic and consumer group", read, *actions)


def of_locks(*actions: Action) -> Finder:
    """The group that locks, and the topics whose queues."""

    def read(body: bytes) -> _Names:
        request = decode_lock_request(body)
        return [queue.topic for queue in request.queues], [request.group]

    return _in_body("group and topics", read, *actions)


def of_acks(*actions: Action) -> Finder:
    """The topics and groups of many acknowledgements."""

    def read(body: bytes) -> _Names:
        acks = decode_batch_ack(body) if body else []
        return [ack.topic for ack in acks], [ack.group for ack in acks]

    return _in_body("each topic and group", read, *actions)


def of_client_config(*actions: Action) -> Finder:
    """The topic and group of a subscription that is to be checked."""

    def read(body: bytes) -> _Names:
        wanted, name = decode_client_config(body), client_config_group(body)
        return [wanted.topic] if wanted else (), [name] if name else ()

    return _in_body("topic and group", read, *actions)


def of_assignment(*actions: Action) -> Finder:
    """The topic and group whose queues are assigned."""

    def read(body: bytes) -> _Names:
        query = decode_assignment_query(body)
        return [query.topic], [query.group]

    return _in_body("topic and group", read, *actions)


def of_topics(*actions: Action) -> Finder:
    """The topics of a list of configurations."""
    return _in_body(
        "each topic",
        lambda body: ([config.name for config in decode_topic_configs(body)], ()),
        *actions,
    )


def of_group(*actions: Action) -> Finder:
    """The group of a configuration."""
    return _in_body("group", lambda body: ((), [decode_group_config(body).name]), *actions)


def of_groups(*actions: Action) -> Finder:
    """The groups of a list of configurations."""
    return _in_body(
        "each group",
        lambda body: ((), [config.name for config in decode_group_configs(body)]),
        *actions,
    )


def topic_list(field: str, *actions: Action) -> Finder:
    """The topics of a field, with semicolons between them."""
    wanted = frozenset(actions)

    def find(fields: Mapping[str, str], _body: bytes) -> Iterator[Access]:
        names = fields.get(field, "").split(";")
        yield from (topic_access(name, wanted) for name in names if name)

    return Finder(said("topics", f"`{field}`", actions), find)
