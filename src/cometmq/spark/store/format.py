"""Data source "rocketmq-store": creates the readers, writer and schema that Spark requests."""

# ruff: noqa: N802  Spark gives these names.
# Each step of a plan runs in a new process, so each method imports only its own modules: the first step reads no store.

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.spark.options import read_options
from cometmq.spark.store.options import PATH, READ_OPTIONS, WRITE_OPTIONS, values_of_either
from cometmq.spark.store.schema import check_view_schema, view_schema
from cometmq.spark.table_options import table_options, with_table_options


class RocketMQStoreSource(DataSource):
    """Directory of a RocketMQ store (a broker's files) as Spark tables, as a stream, and as a sink of queue files.

    >>> spark.read.format("rocketmq-store").option("view", "messages").load("/var/rocketmq/store")
    """

    @classmethod
    def name(cls) -> str:
        """Return "rocketmq-store", the name for `format(...)` and `USING ...`."""
        return "rocketmq-store"

    def schema(self) -> StructType:
        """Return the columns of a read if the user gave no schema; raise SettingsError if an option is invalid."""
        value = values_of_either(self.options)
        schema = view_schema(
            value["view"],
            value["columns"],
            properties_format=value["propertiesFormat"],
            with_raw=value["rawRecord"],
        )
        return with_table_options(schema, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader of a batch query; raise SettingsError if an option or column is invalid."""
        from cometmq.spark.store.batch import store_reader
        from cometmq.spark.store.settings import StoreReadSettings

        options = table_options(schema, self.options, PATH)
        settings = StoreReadSettings.parse(options, is_stream=False)
        check_view_schema(settings.view, schema)
        return store_reader(settings, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Create the reader of a streaming query; raise SettingsError if an option or column is invalid."""
        from cometmq.spark.store.settings import StoreReadSettings
        from cometmq.spark.store.stream import StoreStreamReader

        options = table_options(schema, self.options, PATH)
        settings = StoreReadSettings.parse(options, is_stream=True)
        check_view_schema(settings.view, schema)
        return StoreStreamReader(settings, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """Create the writer of consume queue files; raise SettingsError for a wrong option, column or save mode."""
        from cometmq.offline.delay_levels import USUAL_LEVELS_MS
        from cometmq.offline.folder import StoreFolder
        from cometmq.offline.rebuild import RebuildTarget, queue_file_size
        from cometmq.spark.store.writer import QueueWriter, check_packed

        if overwrite:
            raise SettingsError('queue files cannot be overwritten; use .mode("append")')
        check_packed(schema)
        value = read_options(self.options, WRITE_OPTIONS, READ_OPTIONS)
        if value["path"] is None:
            raise SettingsError("option 'path' is required: the directory for the queue files")
        folder = StoreFolder(value["path"])
        if not folder.is_local:
            raise SettingsError(
                f"option 'path' is {in_quotes(value['path'])}, but queue files can only be written to a local directory"
            )
        size = value["queueFileSize"] or queue_file_size(folder.root)
        return QueueWriter(RebuildTarget(folder.root, size // 20 * 20, USUAL_LEVELS_MS))
