"""The index that we build from the log alone is the one that Java built, byte for byte."""

import json
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from cometmq.codec.index_file import (
    INDEX_ENTRY_SIZE,
    decode_header,
    entry_position,
)
from cometmq.codec.record import decode_record
from cometmq.store.message_store import MessageStore
from tests.golden.test_golden_stores import SETTINGS, STORES, directory, name
from tests.support.hand_clock import HandClock

__all__ = ["directory", "name"]  # Fixtures.

SLOTS = SETTINGS.index.slots
ALL_TIME = 1 << 62


def open_copy(path: Path, *, read_only: bool = False, is_safe: bool = False) -> MessageStore:
    settings = replace(SETTINGS, index=replace(SETTINGS.index, is_safe=is_safe))
    clock = HandClock(1_800_000_000_000)
    return MessageStore.open(path, settings, clock=clock, read_only=read_only)


def used_bytes(path: Path) -> bytes:
    """Header, slots and entries; what lies behind was never written."""
    content = path.read_bytes()
    count = decode_header(content).index_count
    used = content[: entry_position(count, SLOTS)]
    unused = entry_position(0, SLOTS)
    assert used[unused : unused + INDEX_ENTRY_SIZE] == bytes(INDEX_ENTRY_SIZE)
    return used


def index_files(directory: Path) -> list[bytes]:
    return [used_bytes(path) for path in sorted((directory / "index").iterdir())]


def test_the_index_built_from_the_log_is_the_one_that_java_built(name, directory, tmp_path):
    built = tmp_path / "built"
    built.mkdir()
    shutil.copytree(directory / "commitlog", built / "commitlog")
    store = open_copy(built)
    store.close()
    theirs = index_files(STORES / name / "store")
    assert len(theirs) > 1
    assert index_files(built) == theirs
    sizes = {path.stat().st_size for path in (built / "index").iterdir()}
    assert sizes == {path.stat().st_size for path in (directory / "index").iterdir()}


def test_javas_index_is_kept_or_built_again_as_it_was(name, directory):
    """After its kill -9 the file that grew is not trusted; `messageIndexSafe` gives it all back."""
    store = open_copy(directory, is_safe=True)
    store.close()
    assert index_files(directory) == index_files(STORES / name / "store")


def test_without_index_safe_recovery_is_as_short_as_javas_and_says_what_it_lacks(
    directory, name, caplog
):
    store = open_copy(directory)
    header = store.index.files[-1].header
    store.close()
    assert index_files(directory)[0] == index_files(STORES / name / "store")[0]
    lacks = [line for line in caplog.messages if "messageIndexSafe" in line]
    if name == "crash":
        assert len(lacks) == 1
        assert header.begin_offset == 786_432  # The log file at which recovery began.
    else:
        assert not lacks


@pytest.mark.parametrize("read_only", [False, True])
def test_every_key_finds_its_messages(name, directory, read_only):
    store = open_copy(directory, read_only=read_only, is_safe=True)
    lines = (STORES / name / "expected.jsonl").read_text().splitlines()
    for line in map(json.loads, lines[::7]):
        properties = line["properties"]
        keys = [properties.get("UNIQ_KEY"), *properties.get("KEYS", "").split()]
        for key in filter(None, keys):
            search = store.index.search(line["topic"], key, begin_ms=0, end_ms=ALL_TIME)
            assert line["physical_offset"] in search.run().offsets
    store.close()


def test_a_search_gives_the_newest_and_no_more_than_asked(directory):
    store = open_copy(directory, is_safe=True)

    def search(count: int, begin_ms: int = 0, end_ms: int = ALL_TIME) -> list[int]:
        asked = store.index.search("GoldenOrders", "key-9", begin_ms=begin_ms, end_ms=end_ms)
        return list(islice(asked.run().offsets, count))

    offsets = search(100)
    assert offsets == sorted(offsets, reverse=True)
    assert search(1) == offsets[:1]
    assert search(0) == []
    stored = decode_record(store.read_record(offsets[0]) or b"").store_timestamp
    assert search(100, end_ms=stored - 60_000) == []
    assert search(100, begin_ms=stored + 60_000) == []
    assert offsets[0] in search(100, begin_ms=stored - 1000, end_ms=stored + 1000)
    store.close()
