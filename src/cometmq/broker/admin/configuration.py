"""Reads and changes the settings of a running broker.

Requests can only change keys marked `is_remote`, because all parts of the broker read them when needed; other keys are
refused by name. Changes of UPDATE_BROKER_CONFIG are saved in a second file next to the conf file, if the broker has one.
Follows AdminBrokerProcessor of RocketMQ 5.3.3, which instead has a list of keys that must not be changed, and rewrites
the conf file.
"""

import os
from collections.abc import Mapping

from cometmq.broker.parts import Parts
from cometmq.broker.replication.terms import copy_rule
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.codes import ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError, SettingsError, invalid_parameter
from cometmq.model.settings import set_keys, settings_table
from cometmq.model.text import in_quotes

# MADV_NORMAL and MADV_RANDOM, in the numbering of `mqadmin setCommitLogReadAheadMode -m`.
_READ_AHEAD_BY_MODE = {"0": True, "1": False}


class Configuration:
    """The running broker's settings, for administrators' requests that read, change or save them.

    Attributes:
        version: Version of the settings; increases with each change made by this object.
    """

    def __init__(self, parts: Parts) -> None:
        """From now on, apply each change of the settings to the store, its cleaner and the topics."""
        in_force, clock = parts.in_force, parts.clock
        self._in_force = in_force
        self._store = parts.store
        self._topics = parts.topics
        self._clock = clock
        self._address = parts.address
        self._listen_host = parts.listen_host
        self._is_read_ahead = in_force.current.is_read_ahead
        self.version = DataVersion(clock.now_ms())
        in_force.on_change.append(self._tell)

    def table(self) -> dict[str, str]:
        """Return the current settings by key (secrets hidden), and values for some other keys (`reported_settings`)."""
        return reported_settings(self._in_force.current, self._address, self._listen_host)

    def changed(self) -> list[str]:
        """Return the keys of the settings that were set in the running broker since its start, sorted."""
        return sorted(self._in_force.changed)

    def set_keys(self) -> list[str]:
        """Return the keys of the settings whose value is not the default, sorted."""
        return set_keys(self._in_force.current)

    def change(self, values: Mapping[str, str]) -> None:
        """Change all of these settings of the running broker or none.

        Raises:
            RequestError: A key is unknown or cannot be changed at run time, or a value is invalid.
        """
        if refused := sorted(self._in_force.refused(values)):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"Can not update config in black list. {', '.join(refused)}: change it in the configuration "
                "file and restart the broker",
            )
        try:
            self._in_force.change(values)
        except SettingsError as error:
            raise invalid_parameter(str(error)) from None
        self.version = self.version.next(self._clock.now_ms())

    def keep(self, values: Mapping[str, str]) -> None:
        """Save changed settings for the next start if the broker has a conf file; call this in a thread, as it may wait.

        Raises RequestError or CodecError if they could not be saved; they stay in force.
        """
        try:
            self._in_force.keep(values)
        except OSError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the change is in force until the next start, but could not be saved: {error.strerror}",
            ) from error

    def set_reading(self, mode: str | None) -> None:
        """Set whether the system reads the log ahead ("0": yes, "1": no; dataReadAheadEnable), until the next start.

        Raises:
            RequestError: INVALID_PARAMETER: The mode is missing or unknown.
        """
        if mode not in _READ_AHEAD_BY_MODE:
            raise invalid_parameter(
                "set commitlog readahead mode param value error: READ_AHEAD_MODE is "
                f"{'missing' if mode is None else in_quotes(mode)}; 0 reads ahead, 1 does not"
            )
        values = {"dataReadAheadEnable": str(_READ_AHEAD_BY_MODE[mode]).lower()}
        self._in_force.change(values)
        self.version = self.version.next(self._clock.now_ms())

    def _tell(self) -> None:
        settings = self._in_force.current
        limits = settings.store_settings()
        self._store.change_limits(limits)
        self._store.cleaner.change_rules(limits.retention)
        self._topics.add_system_topics()
        if settings.is_read_ahead != self._is_read_ahead:
            self._is_read_ahead = settings.is_read_ahead
            self._store.change_read_ahead(is_wanted=self._is_read_ahead)


def reported_settings(
    settings: BrokerSettings, address: str, listen_host: str
) -> dict[str, str]:
    """Return the settings that have a value by key, secrets hidden, and values for some other keys of RocketMQ.

    `address` is the one that the broker registers, `listen_host` the host that it listens on. RocketMQ's tools
    (`exportConfigs`, `exportMetrics`), its dashboard and scripts around `mqadmin getBrokerConfig` read them. RocketMQ's
    keys without a meaning here (thread pools, RocksDB) are left out.
    """
    ip = address.rpartition(":")[0].strip("[]")
    told = {
        "brokerIP1": ip,
        "brokerIP2": ip,
        "bindAddress": listen_host,
        "inSyncReplicas": str(copy_rule(settings).needed),
        "totalReplicas": str(settings.replicas or 1),
        "authConfigPath": f"{settings.store_directory}/config",
        "storeType": "default",
        "configManagerVersion": "v1",
        "enableControllerMode": "false",
        "enableSlaveActingMaster": "false",
        "isInBrokerContainer": "false",
        "duplicationEnable": "false",
        "useTLS": "true" if settings.server_tls() is not None else "false",
        # exportMetrics reports this as the number of processors.
        "clientCallbackExecutorThreads": str(os.cpu_count() or 1),
    }
    return dict(sorted({**told, **settings_table(settings)}.items()))
