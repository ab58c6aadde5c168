"""The jobs "import-kafka" and "export-kafka": topics from Kafka into a cluster, and back.

They use Spark's own Kafka connector, which comes as a jar.
"""

import json
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.origin import ClusterOptions, FromOptions, plan, read_stream
from cometmq.spark.jobs.replay import STATE_DEFAULT
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.streaming import FlowOptions, counted, drain

KAFKA_OF = "KAFKA_OF"
_V1_SOURCES = "spark.sql.sources.useV1SourceList"


@dataclass(frozen=True, kw_only=True)
class ImportOptions(ClusterOptions, FlowOptions):
    """Options of the job `import-kafka`.

    Attributes:
        kafka: its bootstrap servers.
        from_topic: topics of Kafka, with commas between.
        to_topic: where to.
        state: the folder for manifest and checkpoint.
    """

    kafka: str = option("Kafka's bootstrap servers, host:port.")
    from_topic: str = option("Topics of Kafka, with commas between.")
    to_topic: str = option("The topic that gets the messages.")
    state: str = option("Folder for manifest and checkpoint.", STATE_DEFAULT, is_what=False)


@dataclass(frozen=True, kw_only=True)
class ExportOptions(FromOptions, FlowOptions):
    """Options of the job `export-kafka`.

    Attributes:
        kafka: its bootstrap servers.
        to_topic: the topic of Kafka.
        state: the folder for manifest and checkpoint.
    """

    kafka: str = option("Kafka's bootstrap servers, host:port.")
    to_topic: str = option("The topic of Kafka.")
    state: str = option("Folder for manifest and checkpoint.", STATE_DEFAULT, is_what=False)


def import_kafka(spark: SparkSession, options: ImportOptions) -> Report:
    """Send the records of Kafka topics to a topic: key, value and headers (needs Spark's Kafka jar).

    At least once: Kafka's records have no ids. The property KAFKA_OF says where each was.

    Raises:
        SettingsError: the jar is not there.
    """
    check_has_driver(spark, options, "import-kafka")
    check_kafka(spark)
    if options.dry_run:
        # Which offsets there are, only Kafka knows.
        return Report(
            notes=[f"{options.from_topic} at {options.kafka} goes to {options.to_topic}"]
        )
    with running("import-kafka", options, place=options.state) as this:
        records = spark.readStream.format("kafka").options(
            **{
                "kafka.bootstrap.servers": options.kafka,
                "subscribe": options.from_topic,
                "startingOffsets": "earliest",
                "includeHeaders": "true",
                "maxOffsetsPerTrigger": str(options.rows_max),
            }
        )

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            whole, seen = counted(batch)
            writer = whole.drop("storeSize").write.format("rocketmq")
            writer = writer.option("auditDir", this.audit_of(number))
            writer = writer.option("nameServer", options.nameserver)
            writer.option("topic", options.to_topic).mode("append").save()
            return seen.get()

        drain(messages_of(records.load()), this, options, write)
    return this.report()


def export_kafka(spark: SparkSession, options: ExportOptions) -> Report:
    """Write messages of a topic, a store or an archive to a topic of Kafka (needs Spark's Kafka jar).

    At least once; the message id is a header, by which a reader knows a record that came twice.

    Raises:
        SettingsError: the jar is not there.
    """
    check_has_driver(spark, options, "export-kafka")
    check_kafka(spark)
    if options.dry_run:
        return plan(options, read_before("export-kafka", options, options.state))
    with running("export-kafka", options, place=options.state) as this:
        columns = "keys,body,properties,msgId,topic,storeSize,storeTimestamp"
        messages = read_stream(spark, options, rows_max=options.rows_max, columns=columns)

        def write(batch: DataFrame, _number: int) -> dict[str, int]:
            _write_as_v2(batch.sparkSession)
            whole, seen = counted(batch)
            writer = records_of(whole).write.format("kafka").mode("append")
            writer = writer.option("kafka.bootstrap.servers", options.kafka)
            writer.option("topic", options.to_topic).save()
            return seen.get()

        drain(messages, this, options, write)
    return this.report()


def messages_of(records: DataFrame) -> DataFrame:
    """Kafka's records as the sink takes rows; one key goes to one queue, in its order."""
    place = f.to_json(f.struct("topic", "partition", "offset"))
    nothing = f.array().cast("array<struct<key:string,value:binary>>")
    given = f.coalesce("headers", nothing)
    # Kafka lets a header stand twice; the last one counts. What came from here before says so anew.
    names = f.transform(given, lambda each: each["key"])
    last = f.filter(
        given,
        lambda each, at: (
            (each["key"] != KAFKA_OF)
            & (f.array_position(f.slice(names, at + 2, f.size(names)), each["key"]) == 0)
        ),
    )
    headers = f.map_from_entries(
        f.transform(
            last,
            lambda each: f.struct(
                each["key"], f.coalesce(each["value"], f.lit(b"")).cast("string")
            ),
        )
    )
    return records.select(
        f.coalesce("value", f.lit(b"")).alias("body"),
        f.col("key").cast("string").alias("keys"),
        f.col("key").cast("string").alias("shardingKey"),
        f.map_concat(headers, f.create_map(f.lit(KAFKA_OF), place)).alias("properties"),
        f.octet_length(f.coalesce("value", f.lit(b""))).alias("storeSize"),
    )


def records_of(messages: DataFrame) -> DataFrame:
    """Messages as Kafka's sink takes rows: properties are headers, the id among them."""
    entry = "struct<key:string,value:binary>"
    headers = f.transform(
        f.map_entries("properties"),
        lambda each: f.struct(each["key"], each["value"].cast("binary")).cast(entry),
    )
    return messages.select(
        f.col("keys").cast("binary").alias("key"),
        f.col("body").alias("value"),
        headers.alias("headers"),
    )


def _write_as_v2(spark: SparkSession) -> None:
    """Make a session write to Kafka by the second version of Spark's interface for data sources.

    By the first one, its default, Spark never delivers what it observed of the rows.
    """
    old = spark.conf.get(_V1_SOURCES, "") or ""
    spark.conf.set(_V1_SOURCES, ",".join(each for each in old.split(",") if each != "kafka"))


def check_kafka(spark: SparkSession) -> None:
    """Refuse to go on without Spark's Kafka connector.

    Raises:
        SettingsError: it is not; names the package.
    """
    given = {"kafka.bootstrap.servers": "localhost:1", "assign": json.dumps({"t": [0]})}
    try:
        spark.readStream.format("kafka").options(**given).load()
    except AnalysisException as error:
        raise SettingsError(
            "Kafka needs Spark's connector: add --conf spark.jars.packages="
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        ) from error


JOBS = (
    Job("import-kafka", ImportOptions, import_kafka),
    Job("export-kafka", ExportOptions, export_kafka),
)
