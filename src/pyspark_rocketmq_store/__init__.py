"""Lets Spark find the format "rocketmq-store" by itself, as `pyspark_rocketmq` does "rocketmq"."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Entry point of the format "rocketmq-store" for Spark; creating one returns a `RocketMQStoreSource` instead."""

    def __new__(cls, options: MutableMapping[str, str]) -> DataSource:  # type: ignore[misc]
        """Create the source for these options.

        Raises:
            ImportError: A package that the format needs, such as orjson, is missing; pyarrow and numpy are needed by readers and writers.
        """
        from cometmq.spark.store.format import RocketMQStoreSource

        return RocketMQStoreSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)` and `USING ...`."""
        return "rocketmq-store"
