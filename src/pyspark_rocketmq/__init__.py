"""Lets Spark find the format "rocketmq" by itself.

Spark imports every top-level module named `pyspark_*` when a session first uses any Python data
source, and takes its `DefaultSource`. A module that failed here would fail every other source of
that session too, so nothing of ours is imported before the format is used.
"""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource

from pyspark_rocketmq.broken_pipes import hush_broken_pipes

hush_broken_pipes()


class DefaultSource(DataSource):
    """The name of the format; making one gives the source itself."""

    def __new__(cls, options: MutableMapping[str, str]) -> DataSource:  # type: ignore[misc]
        """The source.

        Raises:
            ImportError: pyarrow or numpy is missing.
        """
        from cometmq.spark.format import RocketMQSource

        return RocketMQSource(options)

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)` and `USING ...`."""
        return "rocketmq"
