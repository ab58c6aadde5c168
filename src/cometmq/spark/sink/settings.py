"""What a sink is told to do: the options, checked together and typed.

Next: cometmq.spark.sink.writer
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cometmq.spark.options import read_options, require
from cometmq.spark.sink.options import SINK_OPTIONS
from cometmq.spark.source.options import SOURCE_OPTIONS


@dataclass(frozen=True)
class SinkSettings:
    """What a write does; the fields are the options of `SINK_OPTIONS`."""

    name_servers: tuple[str, ...]
    topic: str | None
    group: str
    batch_rows_max: int
    batch_bytes_max: int
    inflight_max: int
    retries: int
    timeout_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SinkSettings":
        """From the options of a write.

        Raises:
            SettingsError: for an option that is unknown, wrong or missing.
        """
        value = read_options(options, SINK_OPTIONS, SOURCE_OPTIONS)
        require(value, "nameServer")
        return cls(
            name_servers=value["nameServer"],
            topic=value["topic"],
            group=value["group"],
            batch_rows_max=value["batch.maxMessages"],
            batch_bytes_max=value["batch.maxBytes"],
            inflight_max=value["maxInflight"],
            retries=value["retries"],
            timeout_ms=value["sendTimeoutMs"],
        )
