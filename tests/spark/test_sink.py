"""The sink's promises through Spark: what is refused, what a second run changes, what a failed one leaves."""

import pytest
from pyspark.errors import PySparkException

from tests.spark.conftest import load, numbers_of, save

pytestmark = pytest.mark.slow


def numbers(spark, count: int):
    return spark.range(count).selectExpr("cast(id AS string) AS body", "id")


def transactional(tmp_path, write_id: str) -> dict[str, str]:
    return {
        "delivery": "transactional",
        "ledgerDir": str(tmp_path / "ledgers"),
        "writeId": write_id,
        "group": "spark-sink-test",
    }


def test_a_transactional_write_that_runs_again_changes_nothing(spark, cluster, topic, tmp_path):
    rows = numbers(spark, 300).select("body")
    for _ in range(2):
        save(rows, cluster, topic, **transactional(tmp_path, "once"))
    assert numbers_of(load(spark, cluster, topic)) == list(range(300))
    save(rows, cluster, topic, **transactional(tmp_path, "another"))
    assert len(numbers_of(load(spark, cluster, topic))) == 600


def test_a_transactional_write_that_fails_leaves_nothing_to_be_seen(
    spark, cluster, topic, tmp_path
):
    good = numbers(spark, 50).select("body")
    save(good, cluster, topic)
    bad = numbers(spark, 400).selectExpr("CASE WHEN id < 390 THEN body END AS body")
    with pytest.raises(PySparkException, match="a row has a null body"):
        save(bad, cluster, topic, **transactional(tmp_path, "fails"))
    assert numbers_of(load(spark, cluster, topic)) == list(range(50))


def test_rows_of_an_id_have_one_message_id_whichever_task_sends_them(spark, cluster, topic):
    options = {"delivery": "idempotent", "idColumn": "id"}
    save(numbers(spark, 200), cluster, topic, **options)
    save(numbers(spark, 200).repartition(3), cluster, topic, **options)
    read = load(spark, cluster, topic)
    assert read.count() == 400
    assert numbers_of(read.dropDuplicates(["msgId"])) == list(range(200))


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("body, id", {}, "does not know the column 'id'"),
        ("id AS body", {}, "'body' has type bigint"),
        ("body", {"idColumn": "id"}, "'idColumn' has no effect"),
        ("body", {"delivery": "transactional"}, "'ledgerDir' is required"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_row(
    spark, cluster, topic, columns, options, says
):
    with pytest.raises(PySparkException, match=says):
        save(numbers(spark, 5).selectExpr(*columns.split(", ")), cluster, topic, **options)
