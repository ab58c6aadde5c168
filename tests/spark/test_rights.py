"""Source and sink sign their requests, and the secret is in no plan and no output of Spark's."""

import pytest

from cometmq import Admin, ClientSettings, Credentials
from tests.support.accounts import ADMIN, CANARY, account, guarded_cluster

SPARK_USER = Credentials("spark-user", f"{CANARY}-spark")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    own = account(
        SPARK_USER,
        topicPerms=["shown=PUB|SUB"],
        groupPerms=["spark-rocketmq-source=SUB", "spark-rocketmq-sink=SUB"],
    )
    with guarded_cluster(tmp_path_factory.mktemp("guarded"), own) as (nameserver, _):
        settings = ClientSettings(credentials=ADMIN)
        with Admin(nameserver.address, settings=settings) as admin:
            for topic in ("shown", "hidden"):
                admin.topics.create(topic, queues=2)
        yield nameserver.address


def test_a_job_writes_and_reads_what_its_user_may(spark, names, capfd):
    signed = {
        "nameServer": names,
        "rocketmq.accessKey": SPARK_USER.access_key,
        "rocketmq.secretKey": SPARK_USER.secret_key,
    }
    rows = spark.range(100).selectExpr("cast(id AS string) AS body")

    def write(topic):
        writer = (
            rows.write.format("rocketmq").options(**signed).option("deliveryTimeoutMs", "100")
        )
        writer.option("topic", topic).mode("append").save()

    write("shown")
    read = spark.read.format("rocketmq").options(**signed).option("subscribe", "shown").load()
    assert read.count() == 100
    read.explain(extended=True)
    assert CANARY not in read._jdf.queryExecution().toString()
    assert CANARY not in str(read.schema.json())
    with pytest.raises(Exception, match="NO_PERMISSION") as caught:
        write("hidden")
    assert CANARY not in str(caught.value)
    shown = capfd.readouterr()
    assert CANARY not in shown.out + shown.err
