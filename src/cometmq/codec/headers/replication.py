"""Headers of requests about replication."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class HaExchange:
    """EXCHANGE_BROKER_HA_INFO 906, request and answer; a request that only queries has None in all fields."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True)
class ResetMasterFlushed:
    """RESET_MASTER_FLUSH_OFFSET 908: sets the flushed offset that a slave assumes for its master."""

    master_flush_offset: int


@dataclass(frozen=True, slots=True)
class MinBrokerIdChange:
    """NOTIFY_MIN_BROKER_ID_CHANGE 905: a nameserver notifies members which broker now has the smallest id."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
