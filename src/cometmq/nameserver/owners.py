"""Ownership of a registered broker: only the host that registered it may speak for it, as long as it lives.

There is no access control, and without this rule one frame of a stranger would take a living broker out of
all routes, or put his own address in its place (RocketMQ lets him). A broker that restarts, on whatever port,
comes from its own host; one that moves to another host is taken once the old connection is closed or
was silent for its timeout. A failover by a controller goes to a known member of the group with a higher epoch.

A slave that was made the master while the old one hangs does not wait that long: a host of the group gets the
place once the owner does not answer the nameserver's question (`Presence`). Who lost its place on the same host
takes it back on the same terms, so that two brokers of one name do not take turns.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cometmq.codec.headers.nameserver import BrokerIdentity, RegisterBroker
from cometmq.model.codes import RequestCode, ResponseCode, request_name
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError
from cometmq.nameserver.routes import BrokerKey, LiveBroker, RouteTable


class PlaceOwner(NamedTuple):
    """The living broker that has a name and id.

    Attributes:
        address: where it listens.
        live: what the nameserver knows of it.
    """

    address: str
    live: LiveBroker


class OwnerLives(RequestError):
    """NO_PERMISSION: the name and id belong to a living broker.

    Attributes:
        owner: That broker, if the place is given away once it does not answer; None if not.
    """

    def __init__(self, remark: str, owner: PlaceOwner | None) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.owner = owner


def check_register(
    table: RouteTable, header: RegisterBroker, version: DataVersion, ip: str
) -> None:
    """Let a broker register, or refuse it.

    Raises:
        OwnerLives: its name and id belong to a living broker, of another host or of the same one.
        RequestError: NO_PERMISSION: its address belongs to a living broker of another host.
    """
    _check_address(table, header.broker_addr, ip, RequestCode.REGISTER_BROKER)
    group = table.groups.get(header.broker_name)
    address = group.addresses.get(header.broker_id) if group else None
    if group is None or address is None or address == header.broker_addr:
        return
    is_member = header.broker_addr in group.addresses.values()
    is_of_group = ip in table.hosts.get(header.broker_name, ())
    for live in _at_address(table, address):
        epoch = live.version.state_version
        if live.connection.ip == ip:
            # As in RocketMQ the last one wins, or the one of the higher version (RouteTable.register).
            is_rival = table.rivals.has(header, table.clock.monotonic())
            if epoch == version.state_version and is_rival:
                raise _owner_lives(
                    table, header, PlaceOwner(address, live), ip, may_give_way=True
                )
        elif not (is_member and 0 < epoch < version.state_version):
            may_give_way = is_of_group and epoch <= version.state_version
            owner = PlaceOwner(address, live)
            raise _owner_lives(table, header, owner, ip, may_give_way=may_give_way)


def _owner_lives(
    table: RouteTable, header: RegisterBroker, owner: PlaceOwner, ip: str, *, may_give_way: bool
) -> OwnerLives:
    table.rivals.note(header, header.broker_addr, table.clock)
    remark = (
        f"{header.broker_name} id {header.broker_id} is alive at {owner.address}, registered from "
        f"{owner.live.connection.ip}; {header.broker_addr} from {ip} may have the id when that one "
        f"has left, or was silent for {owner.live.timeout:.0f} s"
    )
    return OwnerLives(remark, owner if may_give_way else None)


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
