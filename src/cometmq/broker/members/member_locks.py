"""Queue locks for orderly consumers: a client of a group requests queues and has them to itself for a while.

Follows AdminBrokerProcessor of RocketMQ 5.3.3.
"""

from asyncio import Future
from typing import NamedTuple

from cometmq.broker.members.heartbeats import check_client_id
from cometmq.broker.parts import Parts
from cometmq.broker.tables.saving import saved
from cometmq.codec.bodies.lock import LockRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import GROUP_LENGTH_MAX
from cometmq.model.queue import MessageQueue
from cometmq.steps.steps import Steps


class LockResult(NamedTuple):
    """The result of a request for locks.

    Attributes:
        obtained: Those of the requested queues that the client has locked or renewed with this request.
        missing_count: Number of requested queues that this broker does not have.
    """

    obtained: list[MessageQueue]
    missing_count: int


class MemberLocks:
    """The service of locks of this broker's queues, which members of groups request."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._broker_name = parts.settings.broker_name

    def lock(self, request: LockRequest) -> LockResult | Steps[LockResult]:
        """Lock or renew requested queues, as `QueueLocks.lock` allows; return steps if new locks must be saved first.

        Raises:
            RequestError: The client id is too long, the group does not exist and is not created, or (steps) saving failed;
                or as `unlock`.
        """
        self._check_leads()
        check_client_id(request.client_id)
        if self._parts.groups.get(request.group) is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {request.group:.{GROUP_LENGTH_MAX}}",
            )
        queues = [queue for queue in request.queues if self._is_here(queue)]
        obtained, saving = self._parts.locks.lock(
            queues, group=request.group, client_id=request.client_id
        )
        result = LockResult(obtained, len(request.queues) - len(queues))
        return result if saving is None else _when_saved(result, saving)

    def unlock(self, request: LockRequest) -> None:
        """Release the locks of the requested queues, as far as the client holds them for its group.

        Raises:
            RequestError: This broker is a member of a group that elects its leader, and another one may lead it.
        """
        self._check_leads()
        self._parts.locks.unlock(
            request.queues, group=request.group, client_id=request.client_id
        )

    def _check_leads(self) -> None:
        group = self._parts.replication().group
        if group is not None and not group.lease_ms:
            raise RequestError(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"member {group.own} does not lead its group, or cannot be sure of it: lock queues at the leader",
            )

    def _is_here(self, queue: MessageQueue) -> bool:
        topic = self._parts.topics.get(queue.topic)
        return (
            topic is not None
            and queue.broker_name == self._broker_name
            and 0 <= queue.queue_id < topic.queue_count
        )


def _when_saved(result: LockResult, saving: "Future[None]") -> Steps[LockResult]:
    yield from saved(saving)
    return result
