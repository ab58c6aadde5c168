"""Who is connected: the members of consumer and producer groups, as each broker sees them.

Next: cometmq.codec.bodies.connection
"""

from collections.abc import Mapping

from cometmq.client.hub import Hub
from cometmq.codec.bodies.connection import (
    ClientConnection,
    ConsumerConnections,
    decode_consumer_connections,
    decode_producer_connections,
)
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.client import ConsumerGroupRequest, ProducerGroupRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused


async def consumers_of(
    hub: Hub, addresses: Mapping[str, str], group: str
) -> dict[str, ConsumerConnections]:
    """The members of a consumer group by broker name, of brokers that see any.

    Args:
        hub: connections.
        addresses: of the brokers, by name.
        group: the consumer group.

    Raises:
        BrokerRefused, NetError: a broker said nothing.
    """
    command = Command(
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        fields=encode_fields(ConsumerGroupRequest(group)),
    )
    found = {}
    for name, address in addresses.items():
        try:
            answer = await hub.ask(address, command)
        except BrokerRefused as refused:
            if refused.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
        else:
            found[name] = decode_consumer_connections(answer.body)
    return found


async def producers_of(
    hub: Hub, addresses: Mapping[str, str], group: str
) -> dict[str, tuple[ClientConnection, ...]]:
    """The members of a producer group by broker name; arguments as in `consumers_of`.

    Raises:
        BrokerRefused, NetError: a broker said nothing.
    """
    command = Command(
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        fields=encode_fields(ProducerGroupRequest(group)),
    )
    found = {}
    for name, address in addresses.items():
        answer = await hub.ask(address, command)
        found[name] = decode_producer_connections(answer.body)
    return found
