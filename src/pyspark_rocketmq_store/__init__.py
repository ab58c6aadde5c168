"""Lets Spark find the format "rocketmq-store" by itself, as `pyspark_rocketmq` does "rocketmq"."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """The name of the format; making one gives the source itself."""

    def __new__(cls, options: MutableMapping[str, str]) -> DataSource:  # type: ignore[misc]
        """The source.

        Raises:
            ImportError: pyarrow or numpy is missing.
        """
        from cometmq.spark.store.format import RocketMQStoreSource

        return RocketMQStoreSource(options)

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)` and `USING ...`."""
        return "rocketmq-store"
