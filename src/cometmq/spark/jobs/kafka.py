"""Jobs "import-kafka" and "export-kafka": copy records of Kafka to a topic and back, with Spark's Kafka connector."""

import json
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.origin import ClusterOptions, FromOptions, plan, read_stream
from cometmq.spark.jobs.replay import STATE_DEFAULT
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.streaming import FlowOptions, counted, drain

KAFKA_OF = "KAFKA_OF"
# Properties with Base64 of a key, and of headers, that are not text and so cannot be properties themselves.
KAFKA_KEY, KAFKA_HEADERS = "KAFKA_KEY", "KAFKA_HEADERS"
_OURS = (KAFKA_OF, KAFKA_KEY, KAFKA_HEADERS)
_ENTRIES = "array<struct<key:string,value:string>>"
_V1_SOURCES = "spark.sql.sources.useV1SourceList"


@dataclass(frozen=True, kw_only=True)
class ImportOptions(ClusterOptions, FlowOptions):
    """Options of the job `import-kafka`, which copies Kafka records to a RocketMQ topic."""

    kafka: str = option("Bootstrap servers of Kafka, host:port.")
    from_topic: str = option("Topics in Kafka, separated by commas.")
    to_topic: str = option("The topic to send the messages to.")
    state: str = option("Folder for manifest and checkpoint.", STATE_DEFAULT, is_what=False)


@dataclass(frozen=True, kw_only=True)
class ExportOptions(FromOptions, FlowOptions):
    """Options of the job `export-kafka`, which copies RocketMQ messages to a Kafka topic."""

    kafka: str = option("Bootstrap servers of Kafka, host:port.")
    to_topic: str = option("The topic in Kafka to send the messages to.")
    state: str = option("Folder for manifest and checkpoint.", STATE_DEFAULT, is_what=False)


def import_kafka(spark: SparkSession, options: ImportOptions) -> Report:
    """Send the records of Kafka topics to a topic: key, value and headers (needs Spark's Kafka jar).

    Delivery is at least once, because Kafka's records have no ids. The property KAFKA_OF has the origin of each record.

    Raises:
        SettingsError: The Kafka jar is missing, an option is wrong, or the session is of Spark Connect.
    """
    check_has_driver(spark, options, "import-kafka")
    check_kafka(spark)
    if options.dry_run:
        # The offsets are not known without asking Kafka.
        return Report(
            notes=[
                f"would send {options.from_topic} of Kafka at {options.kafka} to {options.to_topic}"
            ]
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

    Delivery is at least once. Properties become headers, also UNIQ_KEY, the id that the producer gave the message.

    Raises:
        SettingsError: The Kafka jar is missing, an option is wrong, or the session is of Spark Connect.
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
    """Convert Kafka's records to rows for the RocketMQ sink; their key becomes the sharding key, which selects the queue."""
    place = f.to_json(f.struct("topic", "partition", "offset"))
    nothing = f.array().cast("array<struct<key:string,value:binary>>")
    given = f.coalesce("headers", nothing)
    # Of several headers with one name the last one counts. Properties of an earlier import are created again.
    names = f.transform(given, lambda each: each["key"])
    last = f.filter(
        given,
        lambda each, at: (
            ~each["key"].isin(*_OURS)
            & (f.array_position(f.slice(names, at + 2, f.size(names)), each["key"]) == 0)
        ),
    )
    key = f.col("key").cast("string")
    shown = f.transform(
        f.filter(last, _is_property),
        lambda each: f.struct(each["key"], _text_of(each)),
    )
    hidden = f.transform(
        f.filter(last, lambda each: ~_is_property(each)),
        lambda each: f.struct(each["key"], f.base64(each["value"]).alias("value")),
    )
    ours = f.create_map(
        f.lit(KAFKA_OF), place,
        f.lit(KAFKA_KEY), f.when(~_is_text(key), f.base64("key")),
        f.lit(KAFKA_HEADERS), f.when(f.size(hidden) > 0, f.to_json(hidden)),
    )  # fmt: skip
    return records.select(
        f.coalesce("value", f.lit(b"")).alias("body"),
        f.when(_is_text(key), key).alias("keys"),
        f.when(_is_text(key), key).otherwise(f.base64("key")).alias("shardingKey"),
        f.map_filter(
            f.map_concat(f.map_from_entries(shown), ours),
            lambda _name, value: value.isNotNull(),
        ).alias("properties"),
        f.octet_length(f.coalesce("value", f.lit(b""))).alias("storeSize"),
    )


def _text_of(header: Column) -> Column:
    return f.coalesce(header["value"], f.lit(b"")).cast("string")


def _is_text(value: Column) -> Column:
    """Return a Boolean column: true for null, and for text that a property can hold (UTF-8 without separators)."""
    return value.isNull() | (f.is_valid_utf8(value) & ~value.rlike(r"[\x01\x02]"))


def _is_property(header: Column) -> Column:
    return _is_text(header["key"]) & _is_text(_text_of(header))


def records_of(messages: DataFrame) -> DataFrame:
    """Convert messages to Kafka records: properties become headers; those in Base64 by `messages_of` are decoded."""
    entry = "struct<key:string,value:binary>"
    properties = f.col("properties")
    shown = f.transform(
        f.filter(
            f.map_entries(properties), lambda each: ~each["key"].isin(KAFKA_KEY, KAFKA_HEADERS)
        ),
        lambda each: f.struct(each["key"], each["value"].cast("binary")).cast(entry),
    )
    hidden = f.transform(
        f.coalesce(f.from_json(properties[KAFKA_HEADERS], _ENTRIES), f.array().cast(_ENTRIES)),
        lambda each: f.struct(
            each["key"], f.try_to_binary(each["value"], f.lit("base64"))
        ).cast(entry),
    )
    key = f.coalesce(
        f.try_to_binary(properties[KAFKA_KEY], f.lit("base64")), f.col("keys").cast("binary")
    )
    return messages.select(
        key.alias("key"), f.col("body").alias("value"), f.concat(shown, hidden).alias("headers")
    )


def _write_as_v2(spark: SparkSession) -> None:
    """Make a session write to Kafka by version 2 of Spark's interface; version 1 does not deliver observed counts."""
    old = spark.conf.get(_V1_SOURCES, "") or ""
    spark.conf.set(_V1_SOURCES, ",".join(each for each in old.split(",") if each != "kafka"))


def check_kafka(spark: SparkSession) -> None:
    """Raise SettingsError, which names the package to add, if Spark's Kafka connector is not available."""
    given = {"kafka.bootstrap.servers": "localhost:1", "assign": json.dumps({"t": [0]})}
    try:
        spark.readStream.format("kafka").options(**given).load()
    except AnalysisException as error:
        raise SettingsError(
            "this job needs Spark's Kafka connector: add --conf spark.jars.packages="
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        ) from error


JOBS = (
    Job("import-kafka", ImportOptions, import_kafka),
    Job("export-kafka", ExportOptions, export_kafka),
)
