"""Tables that SQL made keep their options."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from cometmq.spark.options import NAME_SERVER
from cometmq.spark.store.options import PATH
from cometmq.spark.table_options import table_options, with_table_options
from tests.spark.conftest import load, numbers_of

STORE = Path(__file__).parents[1] / "golden" / "stores" / "clean" / "store"
SCHEMA = StructType([StructField("body", BinaryType()), StructField("tags", StringType())])
# As Spark 4.3 hands the options of CREATE TABLE.
CREATED = {"option.nameserver": "h:1", "nameserver": "h:1", "option.topic": "t", "owner": "me"}


def test_a_table_brings_its_options_to_a_read_and_the_statement_goes_over_them():
    kept = with_table_options(SCHEMA, CREATED)
    assert table_options(kept, {}, NAME_SERVER) == {"nameserver": "h:1", "topic": "t"}
    said = {"Topic": "u", "endingOffsets": "latest"}
    assert table_options(kept, said, NAME_SERVER) == {
        "nameserver": "h:1",
        "topic": "u",
        "endingoffsets": "latest",
    }


def test_a_schema_is_only_marked_for_a_table():
    plain = {"nameserver": "h:1", "topic": "t"}
    assert with_table_options(SCHEMA, plain) is SCHEMA
    assert table_options(SCHEMA, plain, NAME_SERVER) == plain


def test_who_names_a_cluster_does_not_read_the_table_whose_schema_it_has():
    kept = with_table_options(SCHEMA, {**CREATED, "option.startingoffsets": "latest"})
    other = {"namesrvAddr": "h:2", "topic": "u"}
    assert table_options(kept, other, NAME_SERVER) == {"namesrvaddr": "h:2", "topic": "u"}


def test_secrets_do_not_go_into_the_catalog():
    secret = {"option.rocketmq.secretkey": "s", "option.rocketmq.accesskey": "a"}
    kept = with_table_options(SCHEMA, {**CREATED, **secret})
    assert table_options(kept, {}, NAME_SERVER) == {"nameserver": "h:1", "topic": "t"}


@pytest.mark.parametrize(
    ("location", "path"),
    [("file:/a%20b/store", "/a b/store"), ("/a/store", "/a/store"), ("s3://a/b", "s3://a/b")],
)
def test_the_location_that_spark_makes_of_a_path_is_a_path_again(location, path):
    kept = with_table_options(SCHEMA, {"location": location, "owner": "me"})
    assert table_options(kept, {}, PATH) == {"path": path}


@pytest.fixture
def table(spark, cluster, topic):
    """A table over the topic, with two columns."""
    name = topic.replace("-", "_")
    options = f"nameServer '{cluster.nameserver}', topic '{topic}', columns 'body, tags'"
    spark.sql(f"CREATE TABLE {name} USING rocketmq OPTIONS ({options})")
    yield name
    spark.sql(f"DROP TABLE {name}")


@pytest.mark.slow
def test_a_table_is_read_filled_and_streamed(spark, cluster, topic, table, send, tmp_path):
    send(0, 10)
    to = f"nameServer = '{cluster.nameserver}', topic = '{topic}'"
    spark.sql(f"INSERT INTO {table} WITH ({to}) VALUES (CAST('10' AS BINARY), 'late')")
    rows = spark.range(11, 20).selectExpr("CAST(CAST(id AS STRING) AS BINARY) body", "'x' tags")
    writer = rows.writeTo(table).option("nameServer", cluster.nameserver)
    writer.option("topic", topic).append()
    assert numbers_of(spark.table(table)) == list(range(20))
    tagged = spark.sql(f"SELECT body FROM {table} WHERE tags IN ('late', 'x')")
    assert numbers_of(tagged) == list(range(10, 20))
    query = (
        spark.readStream.option("startingOffsets", "earliest")
        .table(table)
        .writeStream.format("memory")
        .queryName(f"{table}_seen")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert numbers_of(spark.table(f"{table}_seen")) == list(range(20))


@pytest.mark.slow
def test_a_copy_of_a_table_never_goes_back_into_it(spark, cluster, topic, table, send):
    send(0, 10)
    copy = f"{table}_copy"
    options = f"nameServer '{cluster.nameserver}', topic '{topic}-copy', columns 'body, tags'"
    spark.sql(f"CREATE TABLE {copy} USING rocketmq OPTIONS ({options})")
    try:
        with pytest.raises(PySparkException, match="'nameServer' is required"):
            spark.sql(f"INSERT INTO {copy} SELECT * FROM {table}")
        to = f"nameServer = '{cluster.nameserver}', topic = '{topic}-copy'"
        spark.sql(f"INSERT INTO {copy} WITH ({to}) SELECT * FROM {table}")
        assert numbers_of(load(spark, cluster, f"{topic}-copy")) == list(range(10))
        assert numbers_of(spark.table(table)) == list(range(10))
    finally:
        spark.sql(f"DROP TABLE {copy}")


@pytest.mark.slow
def test_a_table_over_a_store_directory_is_read(spark):
    spark.sql(f"CREATE TABLE golden USING `rocketmq-store` OPTIONS (path '{STORE}')")
    try:
        counts = spark.sql("SELECT count(*), count(DISTINCT topic) FROM golden").collect()[0]
        assert counts[0] == 1245
        first = "SELECT count(*) FROM golden WITH (endingPhysicalOffset = 1568)"
        assert 0 < spark.sql(first).collect()[0][0] < 10
    finally:
        spark.sql("DROP TABLE golden")
    assert STORE.is_dir()
