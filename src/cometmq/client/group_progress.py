"""How far a consumer group is, as the brokers tell it: of all its topics, with times.

Next: cometmq.codec.bodies.stats
"""

from collections.abc import Iterable

from cometmq.client.hub import Hub
from cometmq.codec.bodies.stats import QueueProgress, decode_consume_stats
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.console import ConsumeStatsRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.queue import MessageQueue


async def progress_of(
    hub: Hub, addresses: Iterable[str], group: str, topic: str | None
) -> dict[MessageQueue, QueueProgress]:
    """The queues of a group at some brokers.

    Args:
        hub: connections.
        addresses: of the brokers.
        group: the consumer group.
        topic: only of this one; None: of all in which it has offsets.

    Raises:
        BrokerRefused, NetError: a broker said nothing.
    """
    request = ConsumeStatsRequest(group, topic)
    command = Command(RequestCode.GET_CONSUME_STATS, fields=encode_fields(request))
    queues: dict[MessageQueue, QueueProgress] = {}
    for address in addresses:
        queues.update(decode_consume_stats((await hub.ask(address, command)).body).queues)
    return queues
