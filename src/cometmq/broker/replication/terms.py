"""Derives the rules of replication from a broker's settings.

These are the timeouts, frame size and secret of connections between master and slave, the rate limits for sending to a
slave, and the number of members that must have a message before it is acknowledged.
"""

import stat
from pathlib import Path

from cometmq.broker.settings.broker_settings import BrokerRole, BrokerSettings
from cometmq.model.errors import SettingsError
from cometmq.replication.copies import CopyRule
from cometmq.replication.terms import LinkTerms, SlaveRates

_COPIES_PROMISED = 2  # SYNC_MASTER of RocketMQ 4.9: the master and one slave.
_SECRET_SIZE_MIN = 16
_SECRET_SIZE_MAX = 4096


def link_terms(settings: BrokerSettings) -> LinkTerms:
    """Return the heartbeat, timeouts, frame size and secret of connections; raise SettingsError for a bad secret."""
    return LinkTerms(
        heartbeat_seconds=settings.ha_heartbeat_ms / 1000,
        silence_seconds=settings.ha_silence_ms / 1000,
        frame_size=settings.ha_frame_size,
        secret=_secret(settings.ha_secret_file),
    )


def copy_rule(settings: BrokerSettings) -> CopyRule:
    """Return the rule how many members must have a message before it is acknowledged: 1 unless SYNC_MASTER is set."""
    is_sync = settings.broker_role is BrokerRole.SYNC_MASTER
    needed = settings.replicas_needed or _COPIES_PROMISED
    return CopyRule(
        needed=needed if is_sync else 1,
        least=settings.replicas_least if is_sync else 1,
        is_adapted=settings.is_need_adapted,
        gap_max=settings.ha_gap_max,
    )


def slave_rates(settings: BrokerSettings) -> SlaveRates:
    """Return the rate limits for sending to slaves: the operator's (None: no limit), and that for slaves far behind."""
    most = settings.ha_rate_max if settings.is_ha_rate_bound else None
    return SlaveRates(most, settings.ha_catch_up_rate)


def _secret(path: str | None) -> bytes | None:
    if path is None:
        return None
    wanted = f"haSecretFile={path}: "
    try:
        mode = Path(path).stat().st_mode
        with Path(path).open("rb") as file:
            content = file.read(_SECRET_SIZE_MAX).strip()
    except OSError as error:
        raise SettingsError(f"{wanted}{error.strerror or error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(
            f"{wanted}other users than its owner can read or change it (mode {stat.S_IMODE(mode):04o}); "
            "run chmod 600 on it"
        )
    if len(content) < _SECRET_SIZE_MIN:
        raise SettingsError(
            f"{wanted}it has {len(content)} bytes, but at least {_SECRET_SIZE_MIN} are required"
        )
    return content
