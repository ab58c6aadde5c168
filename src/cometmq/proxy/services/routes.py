"""QueryRoute and QueryAssignment: the queues of a topic, under the address by which the client came.

Source: RouteActivity and ProxyTopicRouteData of RocketMQ 5.3.x. Differs: the address is the one that the client used,
with its port, unless the settings name another (grpcAccessAddr); and a broker in this process returns only its own queues.
"""

from collections.abc import Iterator

from google.protobuf.message import Message

from cometmq.model.address import split_address
from cometmq.model.flags import is_readable, is_writable
from cometmq.model.rights import Action, Right
from cometmq.model.route import MASTER_ID, QueueData
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.queue_choice import ANY_QUEUE
from cometmq.proxy.services.access import group_access, topic_accesses
from cometmq.proxy.services.methods import CallContext
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import group_name, topic_name
from cometmq.proxy.v2.statuses import OK, ProxyRefusal
from cometmq.steps.steps import Steps


class Routes:
    """Handles calls of QueryRoute and QueryAssignment."""

    def __init__(self, access_address: str) -> None:
        """`access_address` is the "host:port" in routes; empty: that of the request, or of the connection."""
        self._told = None if not access_address else _endpoints(*split_address(access_address))

    def query_route(
        self, context: CallContext, request: pb.QueryRouteRequest
    ) -> Steps[Message]:
        """Return the queues of a topic, with their permissions and the types of messages that the topic accepts."""
        name = topic_name(request.topic)
        context.check(
            Right.ANYBODY,
            topic_accesses(name, Action.PUB, Action.SUB, Action.GET),
        )
        topic = yield from context.backend.topic(name)
        endpoints = self._endpoints(context, request.endpoints)
        response = pb.QueryRouteResponse(status=OK)
        for queues in topic.brokers:
            broker = pb.Broker(name=queues.broker_name, id=MASTER_ID, endpoints=endpoints)
            for queue_id, permission in _queues(queues):
                response.message_queues.add(
                    topic=request.topic, id=queue_id, permission=permission, broker=broker,
                    accept_message_types=topic.types,
                )  # fmt: skip
        return response

    def query_assignment(
        self, context: CallContext, request: pb.QueryAssignmentRequest
    ) -> Steps[Message]:
        """Return the queues that a consumer receives from: all for an ordered group, or else queue -1 of each broker."""
        name, group = topic_name(request.topic), group_name(request.group)
        context.check(Right.READER, topic_accesses(name, Action.SUB), group_access(group))
        topic = yield from context.backend.topic(name)
        readable = [each for each in topic.brokers if is_readable(each.perm)]
        if not readable:
            raise ProxyRefusal(pb.FORBIDDEN, "no readable queue")
        endpoints = self._endpoints(context, request.endpoints)
        config = yield from context.backend.group(group)
        response = pb.QueryAssignmentResponse(status=OK)
        for queues in readable:
            broker = pb.Broker(name=queues.broker_name, id=MASTER_ID, endpoints=endpoints)
            permission = pb.READ_WRITE if is_writable(queues.perm) else pb.READ
            for queue_id in range(queues.read_queues) if config.orderly else (ANY_QUEUE,):
                queue = response.assignments.add().message_queue
                queue.topic.CopyFrom(request.topic)
                queue.id, queue.permission = queue_id, permission
                queue.broker.CopyFrom(broker)
        return response

    def _endpoints(self, context: CallContext, asked: pb.Endpoints) -> pb.Endpoints:
        return self._told or (asked if asked.addresses else _of_call(context.call))


def _queues(queues: QueueData) -> Iterator[tuple[int, pb.Permission]]:
    """Yield queue ids from 0 with their permissions: first read-only ones, then write-only ones, then the others.

    Without a readable or writable queue, yields queue 0 with the permission NONE.
    """
    reads = queues.read_queues if is_readable(queues.perm) else 0
    writes = queues.write_queues if is_writable(queues.perm) else 0
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
