"""Headers of requests about the copies of a broker's log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HaExchange:
    """EXCHANGE_BROKER_HA_INFO 906, question and answer; all is None where somebody asks."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None
