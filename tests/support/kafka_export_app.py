"""The last life of an export to Kafka: goes on with the run, then prints the report and the records that Kafka holds.

    python -m tests.support.kafka_export_app WORK.json

The work says the jars of Spark's connector ("jars") and the job's options ("options").
"""

import json
import sys
from collections import Counter
from pathlib import Path

from cometmq.spark import session
from cometmq.spark.jobs.kafka import ExportOptions, export_kafka


def main() -> None:
    """Run the job and look."""
    work = json.loads(Path(sys.argv[1]).read_text())
    options = ExportOptions(**work["options"])
    spark = session("kafka", master="local[2]", conf={"spark.jars": work["jars"]})
    report = export_kafka(spark, options)
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", options.kafka)
    records = records.option("includeHeaders", "true").option("subscribe", options.to_topic)
    rows = records.load().selectExpr("CAST(value AS STRING) AS value", "headers").collect()
    ids = {
        (row.value, bytes(header.value).decode())
        for row in rows
        for header in row.headers
        if header.key == "UNIQ_KEY"
    }
    found = {"copies": Counter(row.value for row in rows), "ids": sorted(ids)}
    print(json.dumps({"counts": report.counts, "run": report.this_run, **found}))


if __name__ == "__main__":
    main()
