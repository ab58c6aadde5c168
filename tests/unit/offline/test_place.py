"""Places of files: one spelling for each, and one line where a place cannot be opened."""

from pathlib import Path

import pytest

from cometmq.model.errors import SettingsError
from cometmq.offline.place import hadoop_place, open_place, read_path, same_place
from cometmq.spark.jobs.cdc import CdcOptions
from cometmq.spark.jobs.manifest import JobFolder, manifest_id

SERVER = "?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"


@pytest.mark.parametrize(
    ("given", "one", "for_hadoop"),
    [
        ("s3://b/x", "s3://b/x", "s3a://b/x"),
        ("s3a://b/x", "s3://b/x", "s3a://b/x"),
        ("hdfs://host/x", "hdfs://host/x", "hdfs://host/x"),
        ("file:///a%20b/ü", "file:///a%20b/ü", "/a b/ü"),
        ("/a/b/", "/a/b", "/a/b"),
        ("s3", str(Path("s3").absolute()), str(Path("s3").absolute())),
    ],
)
def test_a_place_has_one_spelling_here_and_one_for_hadoop(given, one, for_hadoop):
    assert same_place(given) == one
    assert hadoop_place(given) == for_hadoop


def test_a_place_that_spark_reads_is_no_pattern():
    assert read_path("/a [1] {b}/what?*") == r"/a \[1\] \{b\}/what\?\*"
    assert read_path("s3://b/x ü%#") == "s3a://b/x ü%#"


def test_both_names_of_s3_are_the_same_place(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    (files, path), (others, other) = (
        open_place(f"{name}://bucket/folder/{SERVER}") for name in ("s3", "s3a")
    )
    assert files.type_name == others.type_name == "s3"
    assert files == others
    assert path == other == "bucket/folder"


def test_a_run_to_s3_is_the_run_to_s3a():
    to = [
        CdcOptions(topic="t", schema="a INT", key="a", to=f"{name}://b/x").what()
        for name in ("s3", "s3a")
    ]
    assert manifest_id("cdc", to[0]) == manifest_id("cdc", to[1])


def test_a_local_place_is_opened_from_where_one_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, path = open_place("table")
    files.create_dir(path)
    assert (tmp_path / "table").is_dir()
    assert JobFolder("table").place == str(tmp_path / "table")


@pytest.mark.parametrize("place", ["ftp://host/x", "hdfs:///x", "://"])
def test_a_place_that_nobody_knows_is_one_line(place, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SettingsError) as raised:
        open_place(place)
    text = str(raised.value)
    assert repr(place) in text
    assert "name a path, or a URI such as" in text
    assert "\n" not in text
