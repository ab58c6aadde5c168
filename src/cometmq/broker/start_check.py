"""Checks settings before a broker opens anything; `-p` and `-m` run it, too, without starting the broker."""

from cometmq.broker.registration.addresses import Addresses, addresses_of
from cometmq.broker.replication.terms import link_terms
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.settings.metrics_keys import MetricsExporter


def check_start(settings: BrokerSettings) -> Addresses:
    """Check settings that depend on each other or on files; return the IP to register and the address to listen on.

    Raises:
        SettingsError, OSError: A setting, or a file or folder that it names, cannot be used.
    """
    settings.check_role()
    settings.store_settings()
    settings.server_tls()
    settings.client_tls()
    link_terms(settings)
    if settings.is_acl_enabled:
        from cometmq.access.known_users import known_accounts

        known_accounts(settings)
    if settings.metrics_exporter is MetricsExporter.OTLP_GRPC:
        from cometmq.broker.metrics.collector import headers_of, target_of

        target_of(settings.metrics_grpc_target)
        headers_of(settings.metrics_grpc_header)
    return addresses_of(settings)
