"""Finds the resources that a request names in its body, or several in one field, for access control."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from cometmq.codec.bodies.assignment import decode_assignment_query
from cometmq.codec.bodies.batch_ack import decode_batch_ack
from cometmq.codec.bodies.group_config import decode_group_config, decode_group_configs
from cometmq.codec.bodies.heartbeat import (
    client_config_group,
    decode_client_config,
    decode_heartbeat,
)
from cometmq.codec.bodies.lock import decode_lock_request
from cometmq.codec.bodies.topic_config import decode_topic_configs
from cometmq.codec.fields import text_of
from cometmq.model.rights import Access, Action, Resource, topic_access
from cometmq.net.requests import Finder, said

# The topics and groups in a body.
_Names = tuple[Iterable[str], Iterable[str]]
# Returns, for access control, a finder of the topics and groups in a body; gets the actions to check on them.
_Find = Callable[..., Finder]


def _in_body(what: str, read: Callable[[bytes], _Names]) -> _Find:
    def finder(*actions: Action) -> Finder:
        wanted = frozenset(actions)

        def find(_fields: Mapping[str, str], body: bytes) -> Iterator[Access]:
            topics, groups = read(body)
            # Each name once, however often it occurs.
            yield from (topic_access(name, wanted) for name in dict.fromkeys(topics))
            yield from (Access(Resource.GROUP, name, wanted) for name in dict.fromkeys(groups))

        return Finder(said(what, "of the body", actions), find, wanted)

    return finder


def _read_heartbeat(body: bytes) -> _Names:
    parts = decode_heartbeat(body).consumers
    topics = [wanted.topic for part in parts for wanted in part.subscriptions]
    return topics, [part.group for part in parts]


def _read_locks(body: bytes) -> _Names:
    request = decode_lock_request(body)
    return [queue.topic for queue in request.queues], [request.group]


def _read_acks(body: bytes) -> _Names:
    acks = decode_batch_ack(body) if body else []
    return [ack.topic for ack in acks], [ack.group for ack in acks]


def _read_client_config(body: bytes) -> _Names:
    wanted, name = decode_client_config(body), client_config_group(body)
    return [wanted.topic] if wanted else (), [name] if name else ()


def _read_assignment(body: bytes) -> _Names:
    query = decode_assignment_query(body)
    return [query.topic], [query.group]


def _read_topics(body: bytes) -> _Names:
    return [config.name for config in decode_topic_configs(body)], ()


def _read_groups(body: bytes) -> _Names:
    return (), [config.name for config in decode_group_configs(body)]


of_heartbeat = _in_body("each wanted topic and consumer group", _read_heartbeat)
of_locks = _in_body("group and topics", _read_locks)  # Of a lock or unlock request.
of_acks = _in_body("each topic and group", _read_acks)
of_client_config = _in_body("topic and group", _read_client_config)
of_assignment = _in_body("topic and group", _read_assignment)
of_topics = _in_body("each topic", _read_topics)
of_group = _in_body("group", lambda body: ((), [decode_group_config(body).name]))
of_groups = _in_body("each group", _read_groups)


def topic_list(field: str, *actions: Action) -> Finder:
    """Return a finder of the topics in a header field, which are separated by semicolons, for access control."""
    wanted = frozenset(actions)

    def find(fields: Mapping[str, str], _body: bytes) -> Iterator[Access]:
        names = text_of(fields.get(field, "")).split(";")
        yield from (topic_access(name, wanted) for name in names if name)

    return Finder(said("topics", f"`{field}`", actions), find, wanted)
