"""Lists the connected clients: members of a consumer group, producers of a group, and producers of all groups.

Follows ConsumerManageProcessor and AdminBrokerProcessor of RocketMQ 5.3.3.
"""

from cometmq.broker.parts import Parts
from cometmq.broker.tables.members import Client
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError


class ClientConnections:
    """The lookup of connected clients by group."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def consumer_ids(self, group_name: str) -> list[str]:
        """Return the client ids of a consumer group's members; raise RequestError if it has none."""
        group = self._parts.members.consumer_group(group_name)
        if group is None:
            remark = f"no consumer for this group, {group_name}"
            if self._parts.groups.peek(group_name) is None:
                remark += ": the group does not exist; create it, or set autoCreateSubscriptionGroup=true"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        return group.client_ids()

    def consumers(self, group_name: str) -> ConsumerConnections:
        """Return a group's consumers and subscriptions; raise RequestError (CONSUMER_NOT_ONLINE) without consumers."""
        group = self._parts.members.consumer_group(group_name)
        if group is None:
            raise RequestError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group_name}] not online"
            )
        return ConsumerConnections(
            tuple(_connection(client) for client in group.clients.values()),
            dict(group.subscriptions),
            group.consume_type,
            group.model,
            group.from_where,
        )

    def producers(self, group_name: str) -> list[ClientConnection]:
        """Return the producers of a group; raise RequestError if it has none."""
        clients = self._parts.members.producers(group_name)
        if not clients:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"the producer group[{group_name}] not exist"
            )
        return [_connection(client) for client in clients]

    def all_producers(self) -> dict[str, list[tuple[ClientConnection, int]]]:
        """Return the producers of each group that has any, with the time of each one's last heartbeat, epoch ms."""
        members, clock = self._parts.members, self._parts.clock
        now, now_ms = clock.monotonic(), clock.now_ms()
        return {
            name: [
                (_connection(client), now_ms - int((now - client.seen) * 1000))
                for client in members.producers(name)
            ]
            for name in members.producer_groups()
        }


def _connection(client: Client) -> ClientConnection:
    return ClientConnection(
        client.client_id, client.peer.address, client.language, client.version
    )
