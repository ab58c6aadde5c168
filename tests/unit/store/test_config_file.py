"""Configuration files: atomic, with the previous content beside them."""

import errno
import json
from pathlib import Path

import pytest

from cometmq.model.errors import CodecError
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk


@pytest.fixture
def file(tmp_path: Path) -> ConfigFile:
    return ConfigFile(str(tmp_path / "topics.json"), RealDisk())


def test_what_was_saved_is_loaded_and_the_previous_content_stands_beside(file):
    file.save('{"a": 1}')
    file.save('{"a": 2}')
    assert file.load(json.loads) == {"a": 2}
    assert Path(file.path + ".bak").read_text() == '{"a": 1}'
    assert sorted(path.name for path in Path(file.path).parent.iterdir()) == [
        "topics.json",
        "topics.json.bak",
    ]


@pytest.fixture
def saved(file) -> ConfigFile:
    """A file whose content is 2, and 1 before."""
    file.save("1")
    file.save("2")
    return file


def test_without_files_there_is_nothing(file):
    assert file.load(json.loads) is None


@pytest.mark.parametrize("content", [b"", b"  \n", b"{half", b"\xff\xfe", b"[" * 100_000])
def test_a_bad_file_gives_way_to_its_backup(saved, caplog, content):
    Path(saved.path).write_bytes(content)
    assert saved.load(json.loads) == 1
    assert saved.path in caplog.text
    assert Path(saved.path + ".damaged").read_bytes() == content


def test_a_directory_gives_way_to_the_backup_too(saved, caplog):
    Path(saved.path).unlink()
    Path(saved.path, "inside").mkdir(parents=True)
    assert saved.load(json.loads) == 1
    assert "s a directory" in caplog.text
    saved.save("3")
    assert ConfigFile(saved.path, RealDisk()).load(json.loads) == 3


def test_a_missing_file_gives_way_to_its_backup_with_a_warning(saved, caplog):
    Path(saved.path).unlink()
    assert saved.load(json.loads) == 1
    assert "it is missing" in caplog.text


@pytest.mark.parametrize("content", ["", "{half"])
def test_what_is_not_needed_is_begun_without_and_kept(file, caplog, content):
    Path(file.path).write_text(content)
    with pytest.raises(CodecError, match="move both away"):
        file.load(json.loads)
    assert file.load(json.loads, is_needed=False) is None
    assert Path(file.path + ".damaged").read_text() == content
    assert "topics.json cannot be read" in caplog.text
    assert file.load(json.loads) is None


def test_saving_the_same_again_keeps_the_backup(saved):
    saved.save("2")
    assert Path(saved.path + ".bak").read_text() == "1"


def test_two_bad_files_are_an_error_that_names_them(file):
    Path(file.path).write_text("{half")
    Path(file.path + ".bak").write_text("{")
    with pytest.raises(CodecError, match=r"topics\.json and its \.bak cannot be read"):
        file.load(json.loads)


def test_a_bad_file_does_not_replace_a_good_backup(saved):
    """A broken main file is the previous content for `save`; it must not become the backup."""
    Path(saved.path).write_text("{half")
    again = ConfigFile(saved.path, RealDisk())
    assert again.load(json.loads) == 1
    again.save("3")
    assert again.load(json.loads) == 3
    assert Path(saved.path + ".bak").read_text() == "1"


@pytest.mark.parametrize("call", ["open", "pwrite", "fdatasync", "rename", "sync_directory"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_power_cut_at_any_step_leaves_the_old_content_or_the_new(call, nth, disk):
    disk.make_directory("/config")
    ConfigFile("/config/topics.json", disk).save("1")
    file = ConfigFile("/config/topics.json", disk)
    disk.fail(call, nth=nth, code=errno.ENOSPC)
    is_saved = True
    try:
        file.save("2")
    except OSError:
        is_saved = False
    after = ConfigFile("/config/topics.json", disk.power_cut())
    assert after.load(json.loads) in ([2] if is_saved else [1, 2])
    disk.heal()
    file.save("3")
    assert ConfigFile("/config/topics.json", disk.power_cut()).load(json.loads) == 3
