"""Stores of RocketMQ's newer kinds, parts of which we do not read, are refused by name, untouched."""

import sys

from tests.attacks.test_starts import filled_store, refused, tree
from tests.support import processes
from tests.support.programs import run_program

OF_MESSAGES = ("consumequeue/CURRENT", "config/tieredStoreMetadata.json", "dledger-n0/data")
OF_OTHERS = (
    "config/rdb/CURRENT",
    "config/topics/CURRENT",
    "config/subscriptionGroups/CURRENT",
    "config/consumerOffsets/CURRENT",
    "kvStore/CURRENT",
    "RocksDBMessageStore/CURRENT",
)


def add_parts(store, names):
    for name in names:
        (store / name).parent.mkdir(exist_ok=True)
        (store / name).write_text("MANIFEST-000005\n")


def assert_named(said, names):
    for name in names:
        place = name.removesuffix("/CURRENT").removesuffix("/data")
        assert f"{place} holds" in said, said
    assert "move it away" in said


def test_configuration_pops_and_timers_in_rocksdb_are_refused_by_name(tmp_path):
    """The broker names what lies where and what to do; nothing is touched."""
    store = filled_store(tmp_path)
    add_parts(store, OF_OTHERS)
    before = tree(store)
    assert_named(refused(processes.broker(tmp_path, "")), OF_OTHERS)
    assert tree(store) == before


def test_queues_in_rocksdb_and_messages_in_a_tier_are_refused_by_tools_too(tmp_path):
    """A tool that would show rows that are not all says what is missing, and so does the broker."""
    store = filled_store(tmp_path)
    add_parts(store, OF_MESSAGES)
    before = tree(store)
    assert_named(refused(processes.broker(tmp_path, "")), OF_MESSAGES)
    command = [sys.executable, "-m", "cometmq.cli", "store", "stat", str(store)]
    tool = run_program(*command, status=3)
    assert_named(" ".join(tool.stderr.split()), OF_MESSAGES)
    assert tree(store) == before
