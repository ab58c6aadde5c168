"""Ownership of a registered broker: usually only the host that registered it may act for it while it lives.

Without this rule a stranger's frame could remove a living broker from all routes or replace its address (as in
RocketMQ). A restarted broker mostly comes from the same host, on any port. A broker that moved to another host is
usually accepted once its old registration was removed, because of a closed connection or silence. After a failover by a
controller, a member of the broker group may replace the old master if its epoch is higher and the old one's is above 0.

If an operator promotes a slave while the old master hangs, a registration from a host of the broker group can succeed
if the old master does not answer the nameserver (`Presence`). A broker that lost its place to another one on the same
host usually regains it under that condition only, so that two brokers of one name do not alternate.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cometmq.codec.headers.nameserver import BrokerIdentity, RegisterBroker
from cometmq.model.codes import RequestCode, ResponseCode, request_name
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError
from cometmq.nameserver.routes import BrokerKey, LiveBroker, RouteTable


class PlaceOwner(NamedTuple):
    """The living broker that has registered a broker name and id, which are its place in the routes.

    Attributes:
        address: Address at which it listens, "host:port".
        live: Its registration.
    """

    address: str
    live: LiveBroker


class OwnerLives(RequestError):
    """Refuses a registration (NO_PERMISSION) whose broker name and id belong to another living broker.

    Attributes:
        owner: That broker, if the place may be taken when it does not answer; otherwise None.
    """

    def __init__(self, remark: str, owner: PlaceOwner | None) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.owner = owner


def check_register(
    table: RouteTable, header: RegisterBroker, version: DataVersion, ip: str
) -> None:
    """Check that a broker may register.

    Raises:
        OwnerLives: Another living broker, the owner, has the name and id. From another host, only a member of the group
            with a later epoch may replace the owner, and nobody if the owner's epoch is 0. From the same host, any
            broker may, unless both epochs are equal and it lost, or was refused, the name and id in the last two
            minutes (`Rivals`).
        RequestError: NO_PERMISSION: A living broker registered the same address from another host.
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
            # As in RocketMQ, the last one or the one with the higher version wins (RouteTable.register).
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
        f"broker {header.broker_name} id {header.broker_id} is running at {owner.address}, registered from "
        f"{owner.live.connection.ip}; {header.broker_addr} from {ip} can register this id after that broker "
        f"has left or has sent no heartbeat for {owner.live.timeout:.0f} s"
    )
    return OwnerLives(remark, owner if may_give_way else None)


def check_unregister(table: RouteTable, identity: BrokerIdentity, ip: str) -> bool:
    """Return whether a broker is registered; RequestError (NO_PERMISSION) if another host registered its address."""
    _check_address(table, identity.broker_addr, ip, RequestCode.UNREGISTER_BROKER)
    return BrokerKey(identity.cluster_name, identity.broker_addr) in table.live


def check_topic(table: RouteTable, topic: str, brokers: Iterable[str], ip: str) -> None:
    """Check that the queues of a topic on some brokers may be changed from a host.

    Raises RequestError (NO_PERMISSION) if one of the broker groups is known, but has no living member from this host.
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
                f"registered from {ip}; only a broker itself can register its topics",
            )


def hear(table: RouteTable, cluster: str, address: str, ip: str) -> None:
    """Record a sign of life of a registered broker if it comes from the host that last registered it."""
    live = table.live.get(BrokerKey(cluster, address))
    if live is not None and live.connection.ip == ip:
        table.touch(cluster, address)


def _check_address(table: RouteTable, address: str, ip: str, code: RequestCode) -> None:
    for live in _at_address(table, address):
        if live.connection.ip != ip:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"{request_name(code)}: the broker at {address} is running and was registered from "
                f"{live.connection.ip}; {ip} may not change its registration",
            )


def _at_address(table: RouteTable, address: str) -> list[LiveBroker]:
    """Return the registered brokers with an address, in any cluster."""
    return [live for key, live in table.live.items() if key.address == address]
