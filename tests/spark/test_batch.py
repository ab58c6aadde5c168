"""Batches through a real broker and a real Spark."""

import pytest
from pyspark.errors import PySparkException

from cometmq import Message, Producer, PullConsumer
from tests.spark.conftest import load, numbers_of, save

pytestmark = pytest.mark.slow


def test_what_is_written_is_read_back_with_every_column(spark, cluster, topic):
    rows = spark.range(1000).selectExpr(
        "cast(id AS string) AS value",
        "concat('tag', id % 3) AS tags",
        "array(concat('k', id), 'common') AS keys",
        "map('n', cast(id AS string), 'UNIQ_KEY', 'not yours') AS properties",
        "cast(id AS int) AS flag",
    )
    save(rows, cluster, topic)
    read = load(spark, cluster, topic)
    assert numbers_of(read) == list(range(1000))
    row = read.where("flag = 7").first()
    assert row is not None
    assert (row.topic, row.tags, row["keys"], bytes(row.body)) == (
        topic,
        "tag1",
        "k7 common",
        b"7",
    )
    assert row.properties["n"] == "7"
    assert row.properties["UNIQ_KEY"] == row.msgId != "not yours"
    assert row.storeHost == cluster.broker
    assert row.bornTimestamp <= row.storeTimestamp
    assert read.selectExpr("count(DISTINCT msgId)").collect()[0][0] == 1000
    assert read.selectExpr("count(DISTINCT offsetMsgId)").collect()[0][0] == 1000


def test_the_client_reads_what_spark_wrote_and_spark_what_the_client_sent(
    spark, cluster, topic
):
    save(spark.sql("SELECT 'from Spark' AS body, 'a' AS tags"), cluster, topic)
    with Producer(cluster.nameserver) as producer:
        sent = producer.send(Message(topic, b"x" * 10_000, tag="b", keys="k1"))
    with PullConsumer(cluster.nameserver) as consumer:
        found = [
            message.body
            for queue in consumer.queues(topic)
            for message in consumer.fetch(queue, 0).messages
            if message.tag == "a"
        ]
    assert found == [b"from Spark"]
    row = load(spark, cluster, topic).where("tags = 'b'").first()
    assert row is not None
    assert bytes(row.body) == b"x" * 10_000, "a body that the client compressed is unpacked"
    assert (row.msgId, row["keys"], row.queueOffset) == (
        sent.message_id,
        "k1",
        sent.queue_offset,
    )


@pytest.mark.parametrize("delivery", ["at-least-once", "transactional"])
def test_a_namespace_is_seen_by_brokers_only(spark, cluster, topic, tmp_path, delivery):
    promise = (
        {"ledgerDir": str(tmp_path), "writeId": "w"} if delivery != "at-least-once" else {}
    )
    shop = {"rocketmq.namespace": "shop"}
    rows = spark.range(100).selectExpr("cast(id AS string) body")
    save(rows, cluster, topic, delivery=delivery, **promise, **shop)
    read = load(spark, cluster, topic, **shop)
    assert numbers_of(read) == list(range(100))
    assert {row.topic for row in read.select("topic").collect()} == {topic}
    full = load(spark, cluster, f"shop%{topic}")
    assert {row.topic for row in full.select("topic").collect()} == {f"shop%{topic}"}


def test_a_filter_gives_each_matching_message_once(spark, cluster, topic):
    rows = spark.range(5000).selectExpr("cast(id AS string) body", "concat('t', id % 7) tags")
    save(rows, cluster, topic)
    found = load(spark, cluster, topic, subExpression="t1 || t4", **{"pull.batchSize": "32"})
    assert numbers_of(found) == [n for n in range(5000) if n % 7 in (1, 4)]


@pytest.mark.parametrize("is_pushed_down", ["true", "false"])
def test_filters_give_the_same_rows_whether_spark_pushes_them_down_or_not(
    spark, cluster, topic, is_pushed_down
):
    rows = spark.range(400).selectExpr(
        "cast(id AS string) body", "concat('t', id % 3) tags", "concat('k', id) keys"
    )
    save(rows, cluster, topic, **{"batch.maxMessages": "20"})
    conf = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(conf)
    spark.conf.set(conf, is_pushed_down)
    try:
        read = load(spark, cluster, topic, minRecordsPerTask="0")
        assert numbers_of(read.where("tags IN ('t1', 't2') AND queueOffset < 1000")) == [
            n for n in range(400) if n % 3
        ]
        assert numbers_of(read.where("keys = 'k77'")) == [77]
        assert (
            numbers_of(read.where("storeTimestamp > current_timestamp() + INTERVAL 1 DAY"))
            == []
        )
        some = read.where("queueId = 1")
        # A task for each queue that is read.
        assert some.rdd.getNumPartitions() == (1 if is_pushed_down == "true" else 4)
        assert {row.queueId for row in some.select("queueId").collect()} == {1}
        assert some.count() + read.where("queueId != 1").count() == 400
    finally:
        spark.conf.set(conf, before)


def test_only_the_columns_asked_for_are_read(spark, cluster, topic, send):
    send(0, 10)
    assert load(spark, cluster, topic, columns="queueOffset, topic").columns == [
        "queueOffset",
        "topic",
    ]
    reader = spark.read.format("rocketmq").schema("properties STRING, body BINARY")
    rows = reader.option("nameServer", cluster.nameserver).option("topic", topic).load()
    assert rows.columns == ["properties", "body"]
    assert "UNIQ_KEY\x01" in rows.collect()[0].properties


def test_a_read_begins_and_ends_where_it_is_told(spark, cluster, topic, send):
    send(0, 100, **{"batch.maxMessages": "10"})
    offsets = load(spark, cluster, topic, columns="brokerName, queueId, queueOffset")
    broker = offsets.collect()[0].brokerName
    bounds = f'{{"{topic}": {{"{broker}": {{"0": 2, "1": 3}}}}}}'
    some = load(spark, cluster, topic, startingOffsets=bounds, endingOffsets=bounds)
    assert some.where("queueId < 2").count() == 0
    first = load(spark, cluster, topic, endingOffsets=f'{{"{topic}": 1}}')
    assert {row.queueOffset for row in first.collect()} == {0}
    late = load(spark, cluster, topic, startingTimestamp="9999999999999")
    assert late.count() == 0


def test_rows_of_one_key_stay_in_order_in_one_queue(spark, cluster, topic):
    rows = (
        spark.range(600)
        .coalesce(1)
        .selectExpr("cast(id AS string) body", "concat('key', id % 5) shardingKey")
    )
    save(rows, cluster, topic, **{"batch.maxMessages": "7"})
    read = (
        load(spark, cluster, topic)
        .selectExpr("int(cast(body AS string)) AS n", "queueId", "queueOffset")
        .collect()
    )
    for key in range(5):
        mine = sorted((row.queueOffset, row.n) for row in read if row.n % 5 == key)
        assert [n for _, n in mine] == list(range(key, 600, 5))
        assert len({row.queueId for row in read if row.n % 5 == key}) == 1


def test_rows_go_to_the_queue_and_topic_that_they_name(spark, cluster, topic):
    rows = spark.createDataFrame(
        [(f"{topic}-a", 1, "one"), (f"{topic}-b", 0, "two")],
        "topic STRING, queueId INT, body STRING",
    )
    writer = rows.write.format("rocketmq").option("nameServer", cluster.nameserver)
    writer.mode("append").save()
    read = (
        load(spark, cluster, f"{topic}-a,{topic}-b")
        .select("topic", "queueId", "body")
        .collect()
    )
    assert sorted(tuple(row) for row in read) == [
        (f"{topic}-a", 1, b"one"),
        (f"{topic}-b", 0, b"two"),
    ]


def test_a_pattern_finds_topics(spark, cluster, topic, send):
    send(0, 5)
    reader = spark.read.format("rocketmq").option("nameServer", cluster.nameserver)
    rows = reader.option("subscribePattern", f".*{topic[5:]}").load()
    assert numbers_of(rows.where(f"topic = '{topic}'")) == [0, 1, 2, 3, 4]


def test_sql_reads_a_view_and_inserts_into_a_table(spark, cluster, topic, send):
    send(0, 10)
    table = topic.replace("-", "_")
    options = f"nameServer = '{cluster.nameserver}', topic = '{topic}'"
    spark.sql(
        f"CREATE TABLE {table} USING rocketmq OPTIONS ({options}, columns = 'body, tags')"
    )
    try:
        spark.sql(f"INSERT INTO {table} WITH ({options}) VALUES (CAST('10' AS BINARY), 'late')")
    finally:
        spark.sql(f"DROP TABLE {table}")
    load(spark, cluster, topic).createOrReplaceTempView(table)
    rows = spark.sql(f"SELECT body FROM {table} WHERE tags IS NULL OR tags = 'late'")
    assert numbers_of(rows) == list(range(11))


def test_spark_finds_the_format_where_nothing_was_registered(spark, cluster, topic, send):
    send(0, 3)
    assert numbers_of(load(spark.newSession(), cluster, topic)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"startingOffset": "latest"},
            "unknown option 'startingoffset'; did you mean 'startingOffsets'",
        ),
        ({"columns": "boddy"}, "unknown column 'boddy'; did you mean 'body'"),
    ],
)
def test_a_wrong_read_says_what_is_right(spark, cluster, topic, options, says):
    with pytest.raises(PySparkException, match=says):
        load(spark, cluster, topic, **options).count()


def test_a_topic_that_does_not_exist_is_named(spark, cluster):
    with pytest.raises(PySparkException, match="no route of topic 'nowhere'"):
        load(spark, cluster, "nowhere").count()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            "SELECT 'x' AS boddy",
            "the sink does not know the column 'boddy'; did you mean 'body'",
        ),
        ("SELECT 5 AS body", "column 'body' has type int; the sink accepts binary or string"),
        ("SELECT 'x' AS tags", "needs a column 'body'"),
        ("SELECT cast(NULL AS string) AS body", "has a null body"),
        (
            "SELECT 'x' AS body, map('a', 1) AS properties",
            r"the sink accepts map<string,string>",
        ),
        ("SELECT 'x' AS body, 99 AS queueId", "match 0 writable queues"),
    ],
)
def test_a_wrong_write_says_what_is_right_and_sends_nothing(spark, cluster, topic, query, says):
    with pytest.raises(PySparkException, match=says):
        save(spark.sql(query), cluster, topic)


def test_a_topic_is_not_overwritten(spark, cluster, topic):
    rows = spark.sql("SELECT 'x' AS body")
    writer = rows.write.format("rocketmq").option("nameServer", cluster.nameserver)
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.option("topic", topic).mode("overwrite").save()
