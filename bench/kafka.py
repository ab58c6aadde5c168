"""Kafka, beside which Spark's sources are measured: its broker, and Spark's own source for it; jars through Maven."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.interop.reference import CACHE, fetched, java
from tests.support.processes import Program, free_port, write_conf
from tests.support.programs import run_program, until_killed

POMS = Path(__file__).resolve().parent / "poms"
HEAP = ("-Xms1g", "-Xmx1g")  # Kafka's own start script takes 1 GB.
QUIET = "-Dlog4j2.level=ERROR"
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # any 16 bytes, in Base64


def jars(name: str) -> Path:
    """The folder with the jars of one file of `poms`; fetched where they are not there yet."""
    return fetched((POMS / f"{name}.xml").read_text(), CACHE / "bench" / name)


def spark_jars() -> str:
    """What Spark's setting `spark.jars` must name."""
    return ",".join(str(path) for path in sorted(jars("kafka-spark").glob("*.jar")))


@contextmanager
def kafka(folder: Path, *, partitions: int, jvm: Sequence[str] = HEAP) -> Iterator[str]:
    """A broker on an empty folder, with options of its JVM; its address."""
    port, controller = free_port(), free_port()
    conf = write_conf(
        folder / "server.properties",
        {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": folder / "log",
            "num.partitions": partitions,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        },
    )
    command = [java(), *jvm, QUIET, "-cp", f"{jars('kafka-broker')}/*"]
    format_log = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(conf)]
    run_program(*command, *format_log, seconds=120)
    broker = Program([*command, "kafka.Kafka", conf], log=folder / "kafka.log", port=port)
    with until_killed(broker):
        yield broker.address
