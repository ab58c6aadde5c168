"""Places of a real S3 server, by both of their names: archive, restore, scan, and a job of its own process."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from typer.testing import CliRunner

from cometmq.cli.__main__ import app
from cometmq.offline import read
from tests.support.big_store import make_big_store
from tests.support.processes import Program, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES = 500
PIPELINE = (sys.executable, "-m", "cometmq.cli", "pipeline")


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

    def job(name: str) -> dict[str, Any]:
        words = ("archive", "--store", str(store), "--to", f"{name}://bucket/jobs", "--json")
        command = [*PIPELINE, *words, "--progress", "none", "--master", "local[2]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        return json.loads(done.stdout)

    assert job("s3a")["counts"]["rows"] == MESSAGES
    job("s3")
    kept = s3.get_file_info(fs.FileSelector("bucket/jobs/_jobs"))
    assert len([each for each in kept if each.base_name.endswith(".json")]) == 1
