"""Spark Connect, for real: a server in a JVM of its own, a program that has only a session, and what it can do."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from cometmq.model.exit_status import ExitStatus
from cometmq.spark.java import java_home, java_options
from tests.support.command_line import COMETMQ
from tests.support.connect_program import ROWS
from tests.support.processes import Program, free_port
from tests.support.programs import run_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-connect.lock"
GOLDEN = ROOT / "tests" / "golden" / "stores" / "clean" / "store"
SPARK_HOME = Path(pyspark.__file__).parent
SECONDS_MAX = 200
REFUSED = {
    "stats", "dlq replay", "replay", "table", "cdc", "compact", "trace", "mirror", "import-kafka", "export-kafka",
}  # fmt: skip


@pytest.fixture(scope="module")
def environment():
    """Where the packages of a client of Spark Connect are found, by processes that ask for them only."""
    name = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = ROOT / ".cache" / f"connect-{name}"
    if not folder.is_dir():
        growing = folder.with_name(f"{folder.name}-{os.getpid()}")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--retries",
            "10",
            "--no-deps",
        ]
        subprocess.run([*pip, "--target", growing, "--requirement", LOCK], check=True)
        growing.rename(folder)
    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(folder),
    }


@pytest.fixture(scope="module")
def server(environment, tmp_path_factory):
    """The address of a server as docs/spark/cluster.md starts it."""
    port, folder = free_port(), tmp_path_factory.mktemp("connect")
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": folder / "warehouse",
    }
    pairs = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    java = ["--driver-java-options", " ".join(java_options(java_home()))]
    kind = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    submit = [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", *kind]
    command = [*submit, *pairs, *java, "spark-internal"]
    with Program(
        [str(word) for word in command], log=folder / "server.log", port=port, env=environment
    ):
        yield f"sc://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def told(server, environment, cluster, tmp_path_factory):
    """What came of each step of a program, and what it wrote to stderr."""
    folder = tmp_path_factory.mktemp("program")
    store = shutil.copytree(GOLDEN, folder / "store")
    program = [sys.executable, "-m", "tests.support.connect_program"]
    done = run_program(
        *program, server, cluster.nameserver, store, folder,
        env=environment, cwd=ROOT, seconds=SECONDS_MAX,
    )  # fmt: skip
    return {**json.loads(done.stdout), "stderr": done.stderr}


def test_a_topic_is_written_and_read_as_a_batch_and_filters_reach_it(told):
    assert told["batch"] == {"bodies": ROWS, "t1": ROWS // 3}


def test_a_stream_goes_from_topic_to_topic_and_its_offsets_into_groups(told):
    assert told["stream"]["copied"] == ROWS
    assert told["stream"]["queues"] > 0
    assert told["stream"]["left"] == 0


def test_a_stream_becomes_a_delta_table(told):
    assert told["delta"] == ROWS


def test_a_store_is_read_without_its_broker_as_a_batch_and_as_a_stream(told):
    store = told["store"]
    assert store["rows"] == store["streamed"] == store["distinct"] > 0
    assert store["micro-batches"] > 1


def test_each_job_without_micro_batches_does_what_it_does_elsewhere(told):
    jobs = told["jobs"]
    assert jobs["stats"]["rows"] == ROWS
    assert jobs["sql"]["rows"] == 1
    assert jobs["archive of topics"]["rows"] == ROWS
    assert jobs["compared"]["messages of A"] == jobs["compared"]["messages of B"] == ROWS
    assert jobs["compared"]["findings"] == jobs["verify"]["findings"] == 0
    assert jobs["verify"]["rows"] == jobs["archive"]["rows"] == jobs["restore"]["rows"] > 0
    assert jobs["rebuild-index"]["queue entries"] == jobs["verify"]["queue entries"] > 0
    assert jobs["trace"]["records"] == 0, "nothing in that store is a trace"
    assert '"job": "stats"' in told["stderr"], "the server told of its tasks"


def test_each_job_of_micro_batches_refuses_at_once_in_one_line(told):
    assert set(told["refusals"]) == REFUSED
    for job, line in told["refusals"].items():
        assert line.startswith(job)
        assert "cannot run over Spark Connect" in line
        assert f"cometmq pipeline {job}" in line
        assert "\n" not in line


def test_a_wrong_option_is_one_line(told):
    assert told["wrong"].startswith("option 'minPartitions'")
    assert "\n" not in told["wrong"]


def test_the_command_refuses_the_servers_address_in_one_line(tmp_path):
    words = ("table", "--topic", "t", "--schema", "n INT", "--to", str(tmp_path / "t"))
    command = (*COMETMQ, "pipeline", *words, "--master", "sc://127.0.0.1:1")
    done = run_program(*command, status=ExitStatus.WRONG_USE)
    assert "--master sc://127.0.0.1:1: a command cannot use Spark Connect" in " ".join(
        done.stderr.split()
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "t").exists()
