"""QueryRoute and QueryAssignment: the queues of a topic on this broker, under the address by which the client came.

Source: RouteActivity and ProxyTopicRouteData of RocketMQ 5.3.x. Differs: the address is the one that the client used,
with its port, unless the settings name another (grpcAccessAddr); and only the queues of this broker are returned.
"""

from collections.abc import Iterator

from cometmq.broker.parts import Parts
from cometmq.model.address import split_address
from cometmq.model.flags import is_readable, is_writable
from cometmq.model.names import is_derived_topic
from cometmq.model.rights import Action, Right
from cometmq.model.route import MASTER_ID
from cometmq.model.topic import TopicConfig
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.services.access import group_access, topic_accesses
from cometmq.proxy.services.methods import CallContext
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import group_name, topic_name
from cometmq.proxy.v2.statuses import OK, ProxyRefusal

# Attribute of a topic with the type of its messages (TopicAttributes.TOPIC_MESSAGE_TYPE_ATTRIBUTE).
MESSAGE_TYPE = "message.type"
_MIXED = "MIXED"
_TYPES = {
    "NORMAL": pb.NORMAL, "FIFO": pb.FIFO, "DELAY": pb.DELAY, "TRANSACTION": pb.TRANSACTION,
    "LITE": pb.LITE, "PRIORITY": pb.PRIORITY,
}  # fmt: skip
ANY_QUEUE = -1


class Routes:
    """Handles calls of QueryRoute and QueryAssignment, by the topics and groups of this broker."""

    def __init__(self, access_address: str) -> None:
        """`access_address` is the "host:port" in routes; empty: that of the request, or of the connection."""
        self._told = None if not access_address else _endpoints(*split_address(access_address))

    def query_route(
        self, context: CallContext, request: pb.QueryRouteRequest
    ) -> pb.QueryRouteResponse:
        """Return the queues of a topic, with their permissions and the types of messages that the topic accepts."""
        name = topic_name(request.topic)
        context.check(
            Right.ANYBODY,
            topic_accesses(name, Action.PUB, Action.SUB, Action.GET),
        )
        topic = topic_of(context.services.parts, name)
        broker = self._broker(context, request.endpoints)
        types = accepted_types(topic)
        response = pb.QueryRouteResponse(status=OK)
        for queue_id, permission in _queues(topic, context.services.parts.settings.perm):
            response.message_queues.add(
                topic=request.topic, id=queue_id, permission=permission, broker=broker,
                accept_message_types=types,
            )  # fmt: skip
        return response

    def query_assignment(
        self, context: CallContext, request: pb.QueryAssignmentRequest
    ) -> pb.QueryAssignmentResponse:
        """Return the queues that a consumer receives from: all for an ordered group, or else queue -1 for any."""
        name, group = topic_name(request.topic), group_name(request.group)
        context.check(Right.READER, topic_accesses(name, Action.SUB), group_access(group))
        parts = context.services.parts
        topic = topic_of(parts, name)
        if not is_readable(topic.perm & parts.settings.perm):
            raise ProxyRefusal(pb.FORBIDDEN, "no readable queue")
        broker = self._broker(context, request.endpoints)
        config = parts.groups.peek(group)
        is_ordered = config is not None and config.orderly
        ids = range(topic.read_queues) if is_ordered else (ANY_QUEUE,)
        permission = pb.READ_WRITE if is_writable(topic.perm) else pb.READ
        response = pb.QueryAssignmentResponse(status=OK)
        for queue_id in ids:
            response.assignments.add().message_queue.CopyFrom(
                pb.MessageQueue(
                    topic=request.topic, id=queue_id, permission=permission, broker=broker
                )
            )
        return response

    def _broker(self, context: CallContext, asked: pb.Endpoints) -> pb.Broker:
        endpoints = self._told or (asked if asked.addresses else _of_call(context.call))
        name = context.services.parts.settings.broker_name
        return pb.Broker(name=name, id=MASTER_ID, endpoints=endpoints)


def topic_of(parts: Parts, name: str) -> TopicConfig:
    """Return the configuration of a topic; raise ProxyRefusal (TOPIC_NOT_FOUND) instead of creating it."""
    topic = parts.topics.get(name)
    if topic is None:
        raise ProxyRefusal(
            pb.TOPIC_NOT_FOUND, f"No topic route info in name server for the topic: {name}"
        )
    return topic


def accepted_types(topic: TopicConfig) -> list[pb.MessageType]:
    """Return the message types that a topic accepts, by its attribute `message.type`; NORMAL without it.

    NORMAL, FIFO, DELAY and TRANSACTION for MIXED, and for derived topics such as retry topics.
    """
    name = topic.attributes.get(MESSAGE_TYPE, "NORMAL").upper()
    if name == _MIXED or is_derived_topic(topic.name):
        return [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION]
    return [_TYPES.get(name, pb.MESSAGE_TYPE_UNSPECIFIED)]


def check_type(topic: TopicConfig, kind: pb.MessageType) -> None:
    """Raise ProxyRefusal (MESSAGE_PROPERTY_CONFLICT_WITH_TYPE) if a topic does not accept messages of a type."""
    if kind not in accepted_types(topic):
        expected = topic.attributes.get(MESSAGE_TYPE, "NORMAL").upper()
        raise ProxyRefusal(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"TopicMessageType validate failed, the expected type is {expected}, but actual type is "
            f"{pb.MessageType.Name(kind)}",
        )


def _queues(topic: TopicConfig, broker_perm: int) -> Iterator[tuple[int, pb.Permission]]:
    """Yield queue ids from 0 with their permissions: first read-only ones, then write-only ones, then the others.

    Without a readable or writable queue, yields queue 0 with the permission NONE.
    """
    perm = topic.perm & broker_perm
    reads = topic.read_queues if is_readable(perm) else 0
    writes = topic.write_queues if is_writable(perm) else 0
    if not reads and not writes:
        yield 0, pb.NONE
        return
    both = min(reads, writes)
    kinds = ((reads - both, pb.READ), (writes - both, pb.WRITE), (both, pb.READ_WRITE))
    queue_id = 0
    for count, kind in kinds:
        for _ in range(count):
            yield queue_id, kind
            queue_id += 1


def _of_call(call: GrpcCall) -> pb.Endpoints:
    return _endpoints(*call.local)


def _endpoints(host: str, port: int) -> pb.Endpoints:
    scheme = pb.IPv6 if ":" in host else pb.DOMAIN_NAME
    if scheme == pb.DOMAIN_NAME and host.replace(".", "").isdigit():
        scheme = pb.IPv4
    return pb.Endpoints(scheme=scheme, addresses=[pb.Address(host=host, port=port)])
