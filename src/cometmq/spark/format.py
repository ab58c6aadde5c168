"""Data source "rocketmq": creates the readers, writers and schema that Spark requests."""

# ruff: noqa: N802  Spark gives these names.
# Each step of a plan runs in a new process, so each method imports only its own modules: a read never loads the sink.

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from cometmq.model.errors import SettingsError
from cometmq.spark.options import NAME_SERVER
from cometmq.spark.schema import check_read_schema, message_schema
from cometmq.spark.source.options import read_columns
from cometmq.spark.table_options import table_options, with_table_options


class RocketMQSource(DataSource):
    """Topics of a RocketMQ cluster as a table, a stream and a sink.

    >>> spark.read.format("rocketmq").option("nameServer", "localhost:9876")
    ...     .option("subscribe", "orders").load()
    """

    @classmethod
    def name(cls) -> str:
        """Return "rocketmq", the name for `format(...)` and `USING ...`."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return the columns of a read that gives no schema; raise SettingsError for an unknown option or invalid value."""
        columns, properties_format = read_columns(self.options)
        schema = message_schema(columns, properties_format=properties_format)
        return with_table_options(schema, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader of a batch query; raise SettingsError for a wrong or missing option or a wrong column."""
        from cometmq.spark.source.batch import batch_reader
        from cometmq.spark.source.settings import SourceSettings

        check_read_schema(schema)
        options = table_options(schema, self.options, NAME_SERVER)
        return batch_reader(SourceSettings.parse(options, is_stream=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Create the reader of a streaming query; raise SettingsError for a wrong or missing option or a wrong column."""
        from cometmq.spark.source.settings import SourceSettings
        from cometmq.spark.source.stream import RocketMQStreamReader

        check_read_schema(schema)
        options = table_options(schema, self.options, NAME_SERVER)
        return RocketMQStreamReader(SourceSettings.parse(options, is_stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """Create the writer of a batch; raise SettingsError for a wrong option or column, or save mode overwrite."""
        if overwrite:
            raise SettingsError('a topic cannot be overwritten; use .mode("append")')
        from cometmq.spark.sink.columns import SinkColumns
        from cometmq.spark.sink.settings import SinkSettings
        from cometmq.spark.sink.writer import RocketMQWriter

        settings = SinkSettings.parse(self.options, is_stream=False)
        return RocketMQWriter(settings, SinkColumns.of(schema, settings))

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamArrowWriter:
        """Create the writer of a stream; raise SettingsError for a wrong option or column, or output mode complete."""
        if overwrite:
            raise SettingsError('a topic cannot be overwritten; use outputMode("append")')
        from cometmq.spark.sink.columns import SinkColumns
        from cometmq.spark.sink.settings import SinkSettings
        from cometmq.spark.sink.writer import RocketMQStreamWriter

        settings = SinkSettings.parse(self.options, is_stream=True)
        return RocketMQStreamWriter(settings, SinkColumns.of(schema, settings))
