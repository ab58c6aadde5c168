"""Ownership of a registered broker: only the host that registered it may speak for it, as long as it lives.

There is no access control, and without this rule one frame of a stranger would take a living broker out of
all routes, or put his own address in its place (RocketMQ lets him). A broker that restarts, on whatever port,
comes from its own host; one that moves to another host is taken once the old connection is closed or
was silent for its timeout. A failover by a controller goes to a known member of the group with a higher epoch.
"""

from collections.abc import Iterable

from cometmq.codec.headers.nameserver import BrokerIdentity, RegisterBroker
from cometmq.model.codes import RequestCode, ResponseCode, request_name
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError
from cometmq.nameserver.routes import BrokerKey, LiveBroker, RouteTable


def check_register(
    table: RouteTable, header: RegisterBroker, version: DataVersion, ip: str
) -> None:
    """Let a broker register, or refuse it.

    Raises:
        RequestError: NO_PERMISSION: its address, or its name and id, belong to a living broker of another
            host.
    """
    _check_address(table, header.broker_addr, ip, RequestCode.REGISTER_BROKER)
    group = table.groups.get(header.broker_name)
    owner = group.addresses.get(header.broker_id) if group else None
    if owner is None or owner == header.broker_addr:
        return
    is_member = group is not None and header.broker_addr in group.addresses.values()
    for live in _at_address(table, owner):
        epoch = live.version.state_version
        if live.connection.ip != ip and not (is_member and 0 < epoch < version.state_version):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"{header.broker_name} id {header.broker_id} is alive at {owner}, registered from "
                f"{live.connection.ip}; {header.broker_addr} from {ip} may have the id when that one "
                f"has left, or was silent for {live.timeout:.0f} s",
            )


def check_unregister(table: RouteTable, identity: BrokerIdentity, ip: str) -> bool:
    """Let a broker leave, or refuse it; whether there is one to leave.

    Raises:
        RequestError: NO_PERMISSION: another host registered it.
    """
    _check_address(table, identity.broker_addr, ip, RequestCode.UNREGISTER_BROKER)
    return BrokerKey(identity.cluster_name, identity.broker_addr) in table.live


def check_topic(table: RouteTable, topic: str, brokers: Iterable[str], ip: str) -> None:
    """Let the queues of a topic at these brokers be changed, or refuse it.

    Raises:
        RequestError: NO_PERMISSION: one of them is alive, and no member of it registered from this host.
    """
    for name in brokers:
        group = table.groups.get(name)
        if group is not None and not any(
            live.connection.ip == ip
            for address in group.addresses.values()
            for live in _at_address(table, address)
        ):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"{request_name(RequestCode.REGISTER_TOPIC_IN_NAMESRV)} {topic}: {name} was not "
                f"registered from {ip}; only a broker tells of its topics",
            )


def hear(table: RouteTable, cluster: str, address: str, ip: str) -> None:
    """A sign of life of a broker counts where it comes from its host."""
    live = table.live.get(BrokerKey(cluster, address))
    if live is not None and live.connection.ip == ip:
        table.touch(cluster, address)


def _check_address(table: RouteTable, address: str, ip: str, code: RequestCode) -> None:
    for live in _at_address(table, address):
        if live.connection.ip != ip:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"{request_name(code)}: the broker at {address} is alive and was registered from "
                f"{live.connection.ip}; {ip} does not speak for it",
            )


def _at_address(table: RouteTable, address: str) -> list[LiveBroker]:
    """The living brokers of an address, whatever cluster they name."""
    return [live for key, live in table.live.items() if key.address == address]
