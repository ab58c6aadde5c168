"""Headers of requests about the copies of a broker's log."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class HaExchange:
    """EXCHANGE_BROKER_HA_INFO 906, question and answer; all is None where somebody asks."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True)
class ResetMasterFlushed:
    """RESET_MASTER_FLUSH_OFFSET 908: what a slave is to believe of its master's device."""

    master_flush_offset: int


@dataclass(frozen=True, slots=True)
class MinBrokerIdChange:
    """NOTIFY_MIN_BROKER_ID_CHANGE 905: a nameserver tells a group's members who has the smallest id now."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
