"""The index in Spark's verification: what the offline check finds it finds, split by split."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cometmq.codec.index_file import entry_position
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store
from cometmq.offline.rebuild import found_settings
from cometmq.offline.rebuild_keys import KEY
from cometmq.offline.verify import verify
from cometmq.spark.store.verify import Total, VerifyRules, verify_index_file, verify_task
from cometmq.spark.store.verify_index import compared, index_parts, wanted
from cometmq.store.real_disk import RealDisk
from tests.spark.test_store_jobs import STORES, tasks_of

SLOTS = 1_000  # Of the golden stores (maxHashSlotNum).


def verdict(root: Path, *, is_closed: bool = True, split_bytes: int = 100_000) -> Total:
    folder = StoreFolder(str(root))
    index = tuple(index_parts(folder))
    rules = VerifyRules(found_settings(str(root)).delay_levels_ms, is_closed, index)
    of_log = [
        row for task in tasks_of(root, split_bytes) for row in verify_task(folder, task, rules)
    ]
    of_files = [row for part in index for row in verify_index_file(part, rules)]
    return Total.of([*of_log, *of_files])


def offline_entries(root: Path) -> int:
    store = find_store(str(root), None, RealDisk())
    try:
        return verify(store).index_entries
    finally:
        store.close()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORES / "clean" / "store", tmp_path / "store"))


def overwrite(root: Path, number: int, at: int, content: bytes) -> Path:
    """Bytes of an entry of the first index file."""
    path = min((root / "index").iterdir())
    with path.open("r+b") as file:
        file.seek(entry_position(number, SLOTS) + at)
        file.write(content)
    return path


@pytest.mark.parametrize("split_bytes", [40_000, 1 << 30])
def test_a_sound_index_has_as_many_entries_as_the_offline_check_counts(copy, split_bytes):
    total = verdict(copy, split_bytes=split_bytes)
    assert (total.errors, total.notes) == ((), ())
    assert total.index_entries == offline_entries(copy) == 2359


def test_an_entry_with_another_hash_is_a_stray_and_its_key_is_missing(copy):
    overwrite(copy, 77, 0, b"\0\0\1\2")
    errors = [error.finding or "" for error in verdict(copy).errors if error.part == "index"]
    assert any(error.startswith("an entry of hash 258 is no key") for error in errors)
    assert any(error.startswith("1 keys have no entry") for error in errors)
    assert "its chains do not lead through their entries" in errors


def test_a_chain_that_leads_elsewhere_is_found_though_every_entry_is_a_key(copy):
    path = overwrite(copy, 90, 16, (3).to_bytes(4))
    total = verdict(copy)
    assert {(error.place, error.finding) for error in total.errors} == {
        (str(path), "its chains do not lead through their entries")
    }
    assert total.index_entries == 2359


def test_a_file_that_is_gone_is_missing_keys_or_in_an_open_store_a_note(copy):
    files = sorted((copy / "index").iterdir())
    assert len(files) > 1
    files[-1].unlink()
    closed, left_open = verdict(copy), verdict(copy, is_closed=False)
    assert closed.errors
    assert len(closed.errors) == len(left_open.notes)
    assert all("keys have no entry" in (error.finding or "") for error in closed.errors)


def test_the_least_hash_counts_as_java_has_it():
    keys = np.array([(-(1 << 31), 5, 0), (-7, 5, 0), (9, 1, 0)], KEY)
    asked = wanted([keys], 5)
    assert asked.tolist() == [(5, 0), (5, 7)]
    assert compared(asked, asked[:1])[2:] == (1, 5)
