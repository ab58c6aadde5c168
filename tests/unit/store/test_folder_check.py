"""Whether a folder can be used is said before a start, by the setting that names it; nothing is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.model.errors import SettingsError
from cometmq.store.folder_check import check_writable


def test_a_folder_that_is_there_or_can_be_made_is_fine(tmp_path: Path):
    check_writable("storePathRootDir", str(tmp_path))
    check_writable("storePathRootDir", str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_on_the_way_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    wanted = f"^storePathRootDir={tmp_path}/file/a: {tmp_path}/file is not a folder"
    with pytest.raises(SettingsError, match=wanted):
        check_writable("storePathRootDir", str(tmp_path / "file" / "a"))


def test_what_cannot_be_written_even_by_root_is_named():
    with pytest.raises(SettingsError, match="it cannot be made in /proc/self by the user"):
        check_writable("storePathRootDir", "/proc/self/a")
