"""Settings that GET_BROKER_CONFIG reports beside the file's: values that scripts look for under RocketMQ's keys.

Its tools (`exportConfigs`, `exportMetrics`), its dashboard and scripts around `mqadmin getBrokerConfig` read these. Each is what
holds here; keys of RocketMQ that mean nothing here (thread pools, its maps, RocksDB) are not told.
"""

import os

from cometmq.broker.replication.terms import copy_rule
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.settings import settings_table


def reported_settings(settings: BrokerSettings, address: str) -> dict[str, str]:
    """All settings as they are now, by their keys, and what holds of RocketMQ's others; `address` is the broker's."""
    ip = address.rpartition(":")[0].strip("[]")
    told = {
        "brokerIP1": ip,
        "brokerIP2": ip,
        "bindAddress": settings.listen_host,
        "inSyncReplicas": str(copy_rule(settings).needed),
        "totalReplicas": str(settings.replicas or 1),
        "authConfigPath": f"{settings.store_directory}/config",
        "storeType": "default",
        "configManagerVersion": "v1",
        "enableControllerMode": "false",
        "enableDLegerCommitLog": "false",
        "enableSlaveActingMaster": "false",
        "isInBrokerContainer": "false",
        "duplicationEnable": "false",
        "useTLS": "true" if settings.server_tls() is not None else "false",
        # What exportMetrics takes for the number of processors.
        "clientCallbackExecutorThreads": str(os.cpu_count() or 1),
    }
    return dict(sorted({**told, **settings_table(settings)}.items()))
