"""Options of jobs: what tells one run, with its manifest and its checkpoint, from another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs import mirror, table
from cometmq.spark.jobs.archive import ArchiveOptions
from cometmq.spark.jobs.manifest import manifest_id
from cometmq.spark.jobs.mirror import MirrorOptions
from cometmq.spark.jobs.replay import ReplayOptions
from cometmq.spark.jobs.table import TableOptions


def test_the_same_relative_path_in_another_directory_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs = set[str]()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        replay = ReplayOptions(store="data/store", topic="orders", to_topic="again")
        archive = ArchiveOptions(store="data/store", to="archive")
        runs |= {manifest_id("replay", replay.what()), manifest_id("archive", archive.what())}
    assert len(runs) == 4


def test_one_place_in_two_spellings_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    spellings = ("archive", "./archive", str(tmp_path / "archive"))
    runs = [ArchiveOptions(store="store", to=each).what() for each in spellings]
    assert runs[0] == runs[1] == runs[2]
    assert ArchiveOptions(to="x").what()["store"] == ""


def test_nameservers_and_topics_in_two_spellings_are_one_run():
    """Otherwise a job that sends would send everything again."""
    one = MirrorOptions(source="b:9876;a:9876", target="localhost:1", topics="x,y", state="s")
    two = MirrorOptions(
        source=" A:9876, b:09876", target="127.0.0.1:1;", topics="y , x", state="s"
    )
    other = replace(one, source="a:9877;b:9876")
    assert one.what() == two.what() != other.what()
    assert replace(one, source="no port").what()["source"] == "no port"


@pytest.mark.parametrize(
    "other", ["a:1;b:2", "b:2;a:1", " a:01 ,c:3", "A:1", "localhost:4;x:1", "127.0.0.1:4"]
)
def test_runs_of_one_cluster_may_add_a_message_twice_however_it_is_named(other):
    given = TableOptions(nameserver="a:1;b:2;localhost:4", topic="t", to="x", schema="id INT")
    assert table._may_share(given, replace(given, nameserver=other, tag="a").what())
    assert not table._may_share(given, replace(given, nameserver="a:2;c:1").what())


def test_a_mirror_whose_clusters_share_a_nameserver_is_refused():
    given = MirrorOptions(
        source="a:1;b:2", target="c:3,B:02", topics="t", dry_run=True, progress="none"
    )
    with pytest.raises(SettingsError, match="are the same cluster"):
        mirror.run(None, given)  # type: ignore[arg-type]
