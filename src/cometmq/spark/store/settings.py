"""Settings of a read with the Spark format "rocketmq-store": its options, typed and checked together."""

from collections.abc import Mapping
from dataclasses import dataclass

from cometmq.offline.choices import Mode
from cometmq.offline.columns.names import PropertiesFormat
from cometmq.offline.folder import StoreFolder
from cometmq.offline.plan import LogRange
from cometmq.offline.rows import RowRules
from cometmq.spark.store.options import read_values


@dataclass(frozen=True)
class StoreReadSettings:
    """Settings of a read of a store; made from the options of `READ_OPTIONS`."""

    folder: StoreFolder
    view: str
    range: LogRange
    rules: RowRules
    split_bytes: int
    columns: tuple[str, ...]
    properties_format: PropertiesFormat
    with_raw: bool
    with_deleted: bool
    index_slots: int | None
    trigger_bytes_max: int | None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool) -> "StoreReadSettings":
        """Parse the options of a read; raise SettingsError if one is unknown, invalid, missing or in conflict."""
        value = read_values(options, is_stream=is_stream)
        range_ = LogRange(
            value["startingPhysicalOffset"],
            value["endingPhysicalOffset"],
            value["startingTimestamp"],
            value["endingTimestamp"],
        )
        rules = RowRules(
            mode=Mode(value["mode"]),
            is_crc_checked=value["verifyCrc"],
            is_decompressed=value["decompress"],
            is_json=value["propertiesFormat"] == "json",
            broker_name=value["brokerName"],
            topics=value["topics"],
            range=range_,
        )
        return cls(
            folder=StoreFolder(value["path"], value["commitLogPath"]),
            view=value["view"],
            range=range_,
            rules=rules,
            split_bytes=value["splitBytes"],
            columns=value["columns"],
            properties_format=value["propertiesFormat"],
            with_raw=value["rawRecord"],
            with_deleted=value["deletedTopics"],
            index_slots=value["indexSlots"],
            trigger_bytes_max=value["maxBytesPerTrigger"],
        )
