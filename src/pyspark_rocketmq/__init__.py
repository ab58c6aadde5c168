"""Lets Spark find the format "rocketmq" by itself.

Spark imports every top-level module named `pyspark_*` when a session first uses any Python data
source, and takes its `DefaultSource`. A module that failed here would fail every other source of
that session too, so `cometmq` is not imported before the format is used.
"""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource

from pyspark_rocketmq.broken_pipes import hush_broken_pipes

hush_broken_pipes()


class DefaultSource(DataSource):
    """Entry point of the format "rocketmq" for Spark; creating one returns a `RocketMQSource` instead."""

    def __new__(cls, options: MutableMapping[str, str]) -> DataSource:  # type: ignore[misc]
        """Create the source for these options.

        Raises:
            ImportError: A package that the format needs, such as orjson, is missing; pyarrow and numpy are needed by readers and writers.
        """
        from cometmq.spark.format import RocketMQSource

        return RocketMQSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)` and `USING ...`."""
        return "rocketmq"
