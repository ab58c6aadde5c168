"""Places of a real S3 server, by both of their names: archive, restore, scan, jobs of their own process, and tables."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pytest
from pyarrow import fs
from pyarrow import parquet as pq
from typer.testing import CliRunner

from cometmq import Message, Producer
from cometmq.cli.__main__ import app
from cometmq.model.exit_status import ExitStatus
from cometmq.offline import read
from tests.interop.reference import CACHE, fetched
from tests.support import jobs_in_a_row
from tests.support.big_store import make_big_store
from tests.support.processes import Program, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES = 500
ROOT = Path(__file__).resolve().parents[2]
ROWS, KEYS = 60, 7


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """The address of an S3 server with the folder `bucket`."""
    port = free_port()
    command = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
    with Program(command, log=tmp_path_factory.mktemp("s3") / "log", port=port) as program:
        yield program.address


@pytest.fixture
def s3(server, monkeypatch) -> fs.FileSystem:
    """The server's files; who asks for a place of S3 is led to it as to any other, by the environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    files, _ = fs.FileSystem.from_uri("s3://bucket?allow_bucket_creation=true")
    files.create_dir("bucket")
    return files


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "store"
    make_big_store(folder, MESSAGES, body_size=100, filling=b"x")
    return folder


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert not done.exit_code, done.output
    return done.output


def log_bytes(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(store.glob("commitlog/*")))


def test_an_archive_made_by_one_name_is_restored_by_the_other(s3, store, tmp_path):
    run("store", "archive", store, "--to", "s3a://bucket/archive", "--raw")
    run("store", "restore", "s3://bucket/archive", tmp_path / "back")
    assert log_bytes(tmp_path / "back") == log_bytes(store)


@pytest.mark.parametrize("name", ["s3", "s3a"])
def test_a_store_in_s3_is_read_by_spark_as_it_is_without(spark, s3, server, store, name):
    fs.copy_files(str(store), f"bucket/store-{name}", destination_filesystem=s3)
    # Workers of this session were started before the server: the place says where it is.
    where = f"endpoint_override={server}&scheme=http&region=us-east-1"
    place = f"{name}://key:secret@bucket/store-{name}?{where}"
    rows = spark.read.format("rocketmq-store").load(place)
    found = sorted(bytes(row.body) for row in rows.select("body").collect())
    table = read(place, columns=["body"]).read_all()
    assert found == sorted(table.column("body").to_pylist())
    assert len(found) == MESSAGES


def test_a_job_to_s3_and_the_same_job_to_s3a_are_one_run(s3, store, tmp_path):
    # An archive leaves its mark in the store, and the store is the other tests', too.
    store = Path(shutil.copytree(store, tmp_path / "store"))
    for mark in store.rglob("archived.json"):
        mark.unlink()

    archive = ["archive", "--store", str(store), "--json", "--to"]
    told = jobs([[*archive, f"{name}://bucket/jobs"] for name in ("s3a", "s3")])
    assert [status for status, _ in told] == [0, 0], told
    report = next(line for line in told[0][1].splitlines() if line.startswith("{"))
    assert json.loads(report)["counts"]["rows"] == MESSAGES
    kept = s3.get_file_info(fs.FileSelector("bucket/jobs/_jobs"))
    assert len([each for each in kept if each.base_name.endswith(".json")]) == 1


@pytest.fixture(scope="module")
def orders(cluster) -> list[str]:
    """The words of a command that name a topic with rows, and their schema."""
    with Producer(cluster.nameserver) as producer:
        for number in range(ROWS):
            row = {"key": number % KEYS, "n": number}
            change = {**row, "op": "u", "after": row, "ts_ms": number}
            producer.send(Message("orders-s3", json.dumps(change).encode()))
    return ["--topic", "orders-s3", "-n", cluster.nameserver, "--schema", "key INT, n INT"]


def jobs(commands: list[list[str]]) -> list[tuple[int, str]]:
    """What commands ended with and wrote, in one process with one start of Spark."""
    more = ["--progress", "none", "--master", "local[2]"]
    return jobs_in_a_row.said([[*words, *more] for words in commands])


def test_tables_are_made_in_s3_where_spark_has_its_jars(s3, server, orders):
    jars = fetched((Path(__file__).parent / "s3.pom.xml").read_text(), CACHE / "spark-s3")
    hadoop = {
        "endpoint": f"http://{server}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }
    conf = [f"spark.hadoop.fs.s3a.{name}={value}" for name, value in hadoop.items()]
    conf.append("spark.jars=" + ",".join(map(str, sorted(jars.glob("*.jar")))))
    settings = [word for each in conf for word in ("--conf", each)]
    table, cdc = ["table", *orders, *settings], ["cdc", *orders, "--key", "key", *settings]
    delta = ["--table-format", "delta"]
    told = jobs(
        [
            [*table, "--to", "s3a://bucket/rows", *delta],
            [*table, "--to", "s3://bucket/rows", *delta],
            [*table, "--to", "s3://bucket/files"],
            [*cdc, "--to", "s3://bucket/keys", *delta],
        ]
    )
    assert [status for status, _ in told] == [0] * 4, told
    storage = {"allow_http": "true"}
    rows = deltalake.DeltaTable("s3://bucket/rows", storage_options=storage).to_pyarrow_table()
    assert sorted(rows.column("n").to_pylist()) == list(range(ROWS)), (
        "the second run adds nothing"
    )
    files = pq.read_table("bucket/files", filesystem=s3, columns=["n"])
    assert sorted(files.column("n").to_pylist()) == list(range(ROWS))
    keys = deltalake.DeltaTable("s3://bucket/keys", storage_options=storage).to_pyarrow_table()
    newest = list(range(ROWS - KEYS, ROWS))
    assert sorted(keys.column("n").to_pylist()) == newest, "of each key the newest change"


def test_without_its_jars_a_table_in_s3_is_refused_in_one_line(s3, orders):
    table = ["table", *orders, "--to"]
    told = jobs(
        [
            [*table, "s3://bucket/none"],
            [*table, "s3a://bucket/no-delta", "--table-format", "delta"],
            ["stats", *orders[:4], "--to", "s3://bucket/no-stats"],
        ]
    )
    for status, text in told:
        assert status == ExitStatus.WRONG_USE, text
        assert text.startswith("error: Spark has no file system for this place ("), text
        assert "hadoop-aws" in text
        assert len(text.splitlines()) == 1


def test_a_delta_table_on_a_server_that_is_away_is_one_line(s3, orders, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    place = "s3://bucket/away"
    ((status, text),) = jobs([["table", *orders, "--to", place, "--table-format", "delta"]])
    assert status, text
    assert place.removeprefix("s3") in text or "AWS" in text
    assert len(text.splitlines()) == 1
