"""Options of jobs: what tells one run, with its manifest and its checkpoint, from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.spark.jobs.archive import ArchiveOptions
from cometmq.spark.jobs.manifest import manifest_id
from cometmq.spark.jobs.replay import ReplayOptions


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
