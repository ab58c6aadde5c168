"""Changes of a topic's permission to send and read, at one master after the other."""

from collections.abc import Callable

from cometmq.client.api.broker import BrokerApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.model.errors import BrokerNotFound
from cometmq.model.route import MASTER_ID
from cometmq.model.text import in_quotes


async def change_perm(
    instance: ClientInstance,
    topic: str,
    change: Callable[[int], int],
    broker_name: str | None = None,
) -> dict[str, int]:
    """Change a topic's permission at its masters, or at `broker_name` only; return the new permissions by broker name.

    `change` returns the new bits of `model.flags.PERM_*` for the current ones. Raises TopicNotFound without a route,
    BrokerNotFound if the route has no such master, and the error of the first broker that fails; earlier changes stay.
    """
    api = BrokerApi(instance)
    route = await instance.nameserver_api.route(topic)
    masters = {
        each.broker_name: each.addresses[MASTER_ID]
        for each in route.brokers
        if MASTER_ID in each.addresses and broker_name in (None, each.broker_name)
    }
    if not masters:
        raise BrokerNotFound(
            f"no registered master{f' of broker {in_quotes(broker_name)}' if broker_name else ''} has topic "
            f"{in_quotes(topic)}"
        )
    changed = {}
    for name, address in sorted(masters.items()):
        config = await api.topic_config(address, topic)
        changed[name] = change(config.perm)
        await api.change_topic(address, topic, {"perm": changed[name]})
    return changed
