"""Settings of a Spark write to topics: its options, typed and checked together."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cometmq.model.credentials import Credentials
from cometmq.model.errors import SettingsError
from cometmq.model.namespace import namespace_of
from cometmq.model.text import in_quotes
from cometmq.model.tls import TlsSettings
from cometmq.offline.place import same_place
from cometmq.spark.options import credentials_of, name_servers_of, read_options, require, tls_of
from cometmq.spark.sink.options import AT_LEAST_ONCE, IDEMPOTENT, SINK_OPTIONS, TRANSACTIONAL
from cometmq.spark.source.options import SOURCE_OPTIONS


@dataclass(frozen=True)
class SinkSettings:
    """The parsed options of a write (`SINK_OPTIONS`); options for access form `credentials`, those for TLS `tls`."""

    name_servers: tuple[str, ...]
    topic: str | None
    namespace: str
    credentials: Credentials | None
    tls: TlsSettings | None
    group: str
    delivery: str
    id_column: str | None
    write_id: str | None
    ledger_folder: str | None
    audit_folder: str | None
    immunity_ms: int
    queue_selector: str
    batch_rows_max: int
    batch_bytes_max: int
    inflight_max: int
    compress_min: int | None
    retries: int
    timeout_ms: int
    delivery_timeout_ms: int

    @property
    def is_transactional(self) -> bool:
        """Whether rows are half messages until their batch is committed."""
        return self.delivery == TRANSACTIONAL

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool = False) -> "SinkSettings":
        """Parse the options of a write; raise SettingsError if one is unknown, invalid, missing or in conflict."""
        value = read_options(options, SINK_OPTIONS, SOURCE_OPTIONS)
        delivery = value["delivery"] or (IDEMPOTENT if is_stream else AT_LEAST_ONCE)
        _check_delivery(value, delivery, is_stream=is_stream)
        folder = value["ledgerDir"]
        return cls(
            name_servers=_name_servers(value),
            topic=value["topic"],
            namespace=value["rocketmq.namespace"],
            credentials=credentials_of(value),
            tls=tls_of(value),
            group=namespace_of(value["rocketmq.namespace"]).wrap(value["group"]),
            delivery=delivery,
            id_column=value["idColumn"],
            write_id=value["writeId"],
            ledger_folder=folder and str(Path(folder).absolute()),
            audit_folder=value["auditDir"] and same_place(value["auditDir"]),
            immunity_ms=value["transactionImmunity"],
            queue_selector=value["queueSelector"],
            batch_rows_max=value["batch.maxMessages"],
            batch_bytes_max=value["batch.maxBytes"],
            inflight_max=value["maxInflight"],
            compress_min=value["compress.minBytes"],
            retries=value["retries"],
            timeout_ms=value["sendTimeoutMs"],
            delivery_timeout_ms=value["deliveryTimeoutMs"],
        )


def _name_servers(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a write's nameservers, from the environment only with the option `topic`; or raise SettingsError.

    An INSERT INTO passes none of its table's options. Rows read from another table, with their topic in a column, would
    be sent back to their original topic.
    """
    if value["nameServer"] is None and value["topic"] is None:
        raise SettingsError(
            "option 'nameServer' is required if the option 'topic' is not set: with that option, NAMESRV_ADDR in the "
            "environment of the driver is enough; an INSERT INTO sets both options itself, in WITH (...)"
        )
    return name_servers_of(value)


def _check_delivery(value: Mapping[str, Any], delivery: str, *, is_stream: bool) -> None:
    """Raise SettingsError unless the options fit the delivery guarantee."""
    wanted_by = {
        "idColumn": (IDEMPOTENT,),
        "writeId": (IDEMPOTENT, TRANSACTIONAL),
        "ledgerDir": (TRANSACTIONAL,),
    }
    for name, deliveries in wanted_by.items():
        if value[name] is not None and delivery not in deliveries:
            raise SettingsError(
                f"option {in_quotes(name)} has no effect with delivery {delivery}; remove it, or set "
                f"delivery to {' or '.join(deliveries)}"
            )
    if is_stream and value["writeId"] is not None:
        raise SettingsError(
            "option 'writeId' has no effect for a stream, which its checkpoint identifies; remove it"
        )
    if delivery != TRANSACTIONAL:
        return
    require(value, "ledgerDir", example="/data/ledgers")
    if not is_stream:
        require(value, "writeId", example="orders-2026-11-21")
    if value["transactionImmunity"] < 1000:
        raise SettingsError(
            "option 'transactionImmunity': it must be at least 1s, because brokers use seconds"
        )
