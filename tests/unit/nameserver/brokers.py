"""Brokers as the route table sees them: headers, topics, connections."""

from __future__ import annotations

from typing import Any

from cometmq.codec.bodies.register import RegisterBrokerBody
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.codec.headers.nameserver import RegisterBroker
from cometmq.model.data_version import DataVersion
from cometmq.model.route import TopicRoute
from cometmq.model.topic import TopicConfig
from cometmq.nameserver.lookup import find_route
from cometmq.nameserver.routes import RouteTable

CLUSTER = "DefaultCluster"


class Wire:
    """A connection that only counts how often it was closed."""

    def __init__(self, ip: str = "10.0.0.1") -> None:
        self.ip = ip
        self.closings = 0

    def close(self) -> None:
        self.closings += 1


def header(
    address: str = "10.0.0.1:10911", *, broker_id: int = 0, name: str = "broker-a", **more: Any
) -> RegisterBroker:
    """The header of a registration; `more` are further fields of RegisterBroker."""
    values = {"cluster_name": CLUSTER, "ha_server_addr": address[:-1] + "2", **more}
    return RegisterBroker(broker_name=name, broker_addr=address, broker_id=broker_id, **values)


def topics(*names: str, counter: int = 1, state: int = 0, **more: Any) -> RegisterBrokerBody:
    """The body of a registration with these topics; `more` are fields of TopicConfig."""
    table = {name: TopicConfig(name, 4, 4, **more) for name in names}
    return RegisterBrokerBody(TopicTable(DataVersion(1000, counter, state), table))


def route(table: RouteTable, topic: str, **options: bool) -> TopicRoute:
    """The route of a topic that is there."""
    found = find_route(table, topic, **options)
    assert found is not None
    return found
