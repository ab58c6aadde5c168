"""Creates a broker's side of replication from its settings: a port for slaves, or a copier of its master's log."""

import logging
from collections.abc import Callable

from cometmq.broker.parts import LastingParts
from cometmq.broker.registration.addresses import UNSPECIFIED_HOSTS
from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.replication.allowed_addresses import (
    AllowedAddresses,
    members_by_nameservers,
)
from cometmq.broker.replication.copier import LogCopier
from cometmq.broker.replication.master_port import MasterPort
from cometmq.broker.replication.terms import copy_rule, link_terms, slave_rates
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.model.errors import NetError
from cometmq.net.host_names import HostNames

_log = logging.getLogger(__name__)

HA_PORT_DISTANCE = 1  # BrokerStartup of RocketMQ 5.3.3.


def master_port(parts: LastingParts) -> MasterPort:
    """Create a master's HA port, not bound yet; from now on sends wait for replicas if the settings require it.

    Raises:
        SettingsError: The secret or the TLS settings cannot be used.
    """
    settings = parts.in_force.current
    # Anybody can register at a nameserver, so its answer suffices only if slaves must prove more than their address.
    is_word_enough = settings.are_slaves_proven or not settings.is_guarded
    nameservers = settings.nameserver_addresses if is_word_enough else ()
    find = None
    if nameservers:
        ips_of = HostNames(parts.clock).ips_of
        find = members_by_nameservers(
            nameservers, settings.broker_name, NameserverChannels(parts.channels), ips_of
        )
    port = MasterPort(
        parts.store,
        rule=copy_rule(settings),
        terms=link_terms(settings),
        allowed=AllowedAddresses(settings.ha_allowed, find, parts.clock),
        clock=parts.clock,
        pool=parts.pool,
        tls=settings.server_tls(),
    )

    def apply() -> None:
        port.apply(
            copy_rule(settings),
            slave_timeout_ms=settings.slave_timeout_ms,
            rates=slave_rates(settings),
        )

    apply()
    parts.in_force.on_change.append(apply)
    return port


def bind_port(port: MasterPort, parts: LastingParts, *, beside: int) -> int:
    """Bind the HA port; return its number, or 0 if no slave could be accepted or, with a warning, it cannot be bound.

    `port` is the port object of this broker, and `beside` the number of the broker's own port.

    Raises:
        NetError: The port cannot be bound, and it was set explicitly or the role is SYNC_MASTER.
    """
    settings = parts.settings
    if not settings.nameserver_addresses and not settings.ha_allowed:
        return 0  # No slave could be accepted.
    # If the broker listens on any free port, so does the HA port.
    default = beside + HA_PORT_DISTANCE if settings.listen_port else 0
    number = settings.ha_port or default
    try:
        return port.door.bind(parts.listen_host, number)
    except NetError as error:
        if settings.ha_port or settings.broker_role is BrokerRole.SYNC_MASTER:
            raise NetError(f"haListenPort={number}: {error}; set it to a free port") from error
        _log.warning("slaves cannot copy the log, because no HA port is open: %s", error)
        return 0


def log_copier(parts: LastingParts, *, on_written: Callable[[], None]) -> LogCopier:
    """Create a slave's copier, which `serve` starts; raise SettingsError for a bad secret or TLS settings.

    Unless the broker listens on 0.0.0.0 or ::, the slave connects from the address on which it listens. `on_written` is
    called to flush what was appended.
    """
    settings = parts.in_force.current
    copier = LogCopier(
        parts.store,
        broker_id=settings.broker_id,
        own_ip=None if parts.listen_host in UNSPECIFIED_HOSTS else parts.listen_host,
        terms=link_terms(settings),
        clock=parts.clock,
        pool=parts.pool,
        on_written=on_written,
        tls=settings.client_tls(),
    )
    copier.master_told(settings.ha_master or "")
    return copier
