"""Checks settings before a broker opens anything; `-p`, `-m` and `cometmq config check` run them without starting it.

Each check is a function that raises SettingsError, StoreError or OSError for a fault that would end the start. A start and
these commands run the same `CHECKS`; the commands also `MACHINE_CHECKS`, where a start opens the files themselves.
"""

from collections.abc import Callable

from cometmq.broker.registration.addresses import Addresses, addresses_of
from cometmq.broker.replication.opening import HA_PORT_DISTANCE
from cometmq.broker.replication.terms import link_terms
from cometmq.broker.settings.broker_settings import (
    FAST_PORT_DISTANCE,
    BrokerRole,
    BrokerSettings,
)
from cometmq.broker.settings.metrics_keys import MetricsExporter
from cometmq.model.address import (
    PortClaim,
    check_collisions,
    metrics_claim,
    split_address,
)
from cometmq.model.errors import SettingsError
from cometmq.store.checkpoint import CheckpointFiles
from cometmq.store.file_chain import FileChain
from cometmq.store.folder_check import check_writable
from cometmq.store.lock import is_locked
from cometmq.store.opening import check_kind, check_log
from cometmq.store.real_disk import RealDisk

Check = Callable[[BrokerSettings], object]


def check_start(settings: BrokerSettings) -> Addresses:
    """Check settings that depend on each other or on files; return the IP to register and the address to listen on.

    Raises:
        SettingsError, OSError: A setting, or a file or folder that it names, cannot be used.
    """
    for check in CHECKS:
        check(settings)
    return addresses_of(settings)


def check_unstarted(settings: BrokerSettings) -> Addresses:
    """Run `check_start`; also check folders, store and users, which a start would open; for `-p` and `-m`.

    Raises:
        SettingsError, StoreError, OSError: As `check_start`; or a folder, store or file of users cannot be used.
    """
    addresses = check_start(settings)
    for check in MACHINE_CHECKS:
        check(settings)
    return addresses


def ports_of(settings: BrokerSettings, host: str) -> list[PortClaim]:
    """Return the ports on which a broker that listens on `host` will listen, without those that the system chooses."""
    port, claims = settings.listen_port, list[PortClaim]()
    if port:
        claims.append(PortClaim("listenPort", host, port, is_needed=True))
    if port > FAST_PORT_DISTANCE:
        fast = f"listenPort - {FAST_PORT_DISTANCE} (old clients)"
        claims.append(PortClaim(fast, host, port - FAST_PORT_DISTANCE, is_needed=False))
    if settings.is_elected:
        own = settings.peer_addresses()[settings.self_id]
        claims.append(PortClaim("dLegerPeers", host, own.port, is_needed=True))
    ha_port = settings.ha_port or (port + HA_PORT_DISTANCE if port else 0)
    has_slaves = bool(settings.nameserver_addresses or settings.ha_allowed)
    if ha_port and has_slaves and not settings.is_slave and not settings.is_elected:
        is_needed = bool(settings.ha_port) or settings.broker_role is BrokerRole.SYNC_MASTER
        claims.append(PortClaim("haListenPort", host, ha_port, is_needed))
    if settings.grpc_port:
        claims.append(PortClaim("grpcServerPort", host, settings.grpc_port, is_needed=True))
    if settings.metrics_port and settings.metrics_exporter is not MetricsExporter.DISABLE:
        claims.append(metrics_claim(settings.metrics_host, settings.metrics_port))
    return claims


def is_running(settings: BrokerSettings) -> bool:
    """Return whether a broker (CometMQ or RocketMQ) has the store directory open; False if that cannot be found out."""
    return is_locked(RealDisk(), settings.store_directory)


def _check_accounts(settings: BrokerSettings) -> None:
    if settings.is_acl_enabled:
        from cometmq.access.known_users import known_accounts

        known_accounts(settings)


def _check_users(settings: BrokerSettings) -> None:
    """Check the users of Auth 2.0 as a start would, without storing the users that a start would create."""
    if settings.is_authentication_enabled:
        from cometmq.access.known_users import known_users

        folder = settings.auth_path or f"{settings.store_directory}/config"
        known_users(settings, folder, settings.cluster_name, is_dry=True)


def _check_grpc_address(settings: BrokerSettings) -> None:
    if settings.grpc_access_address:
        try:
            split_address(settings.grpc_access_address)
        except ValueError as error:
            raise SettingsError(
                f"grpcAccessAddr={settings.grpc_access_address}: {error}"
            ) from None


def _check_collector(settings: BrokerSettings) -> None:
    if settings.metrics_exporter is MetricsExporter.OTLP_GRPC:
        from cometmq.broker.metrics.collector import headers_of, target_of

        target_of(settings.metrics_grpc_target)
        headers_of(settings.metrics_grpc_header)


def _check_ports(settings: BrokerSettings) -> None:
    check_collisions(ports_of(settings, "any host"))


def _check_folders(settings: BrokerSettings) -> None:
    check_writable("storePathRootDir", settings.store_directory)
    store = settings.store_settings()
    for path in store.commitlog_paths:
        if path not in store.read_only_commitlog_paths:
            check_writable("storePathCommitLog", path)


def _check_store(settings: BrokerSettings) -> None:
    """Check a store's files for what a start refuses, such as another size than in the settings; change no file."""
    disk, root, store = RealDisk(), settings.store_directory, settings.store_settings()
    check_kind(disk, root)
    checkpoints = CheckpointFiles(disk, root)
    checkpoints.load()
    chain = FileChain(
        disk,
        store.commitlog_paths or (f"{root}/commitlog",),
        store.commitlog_file_size,
        read_only_directories=store.read_only_commitlog_paths,
    )
    check_log(disk, root, chain.directories, checkpoints)
    try:
        chain.load(read_only=True)
    finally:
        chain.close()


# In the order of a start.
CHECKS: tuple[Check, ...] = (
    BrokerSettings.check_access,
    BrokerSettings.check_replicas,
    BrokerSettings.check_group,
    BrokerSettings.check_role,
    BrokerSettings.store_settings,
    BrokerSettings.check_client_files,
    link_terms,
    _check_accounts,
    _check_collector,
    _check_grpc_address,
    _check_ports,
)
# A start does these by opening what is checked here.
MACHINE_CHECKS: tuple[Check, ...] = (_check_folders, _check_store, _check_users)
