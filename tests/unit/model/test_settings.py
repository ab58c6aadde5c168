"""Settings from layers: names, kinds, ranks, and changes over the wire."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pytest

from cometmq.model.errors import SettingsError
from cometmq.model.judged_keys import read_settings
from cometmq.model.settings import (
    Layer,
    SettingsInForce,
    environment_layer,
    flags_layer,
    setting,
    setting_keys,
    settings_table,
)


class Flush(Enum):
    ASYNC_FLUSH = 1
    SYNC_FLUSH = 2


@dataclass(frozen=True, slots=True)
class Sample:
    listen_port: int = setting(10911, least=0, most=65535)
    broker_ip1: str | None = setting(None, key="brokerIP1")
    flush_disk_type: Flush = setting(Flush.ASYNC_FLUSH)
    file_size: int = setting(1 << 30, key="mappedFileSizeCommitLog", aliases=("mapedFileSize",))
    is_trace_on: bool = setting(False, key="traceOn", is_remote=True)


def test_a_key_has_a_name_in_files_in_the_environment_and_as_a_flag():
    by_name = {key.name: key for key in setting_keys(Sample)}
    assert by_name["listenPort"].environment_name == "COMETMQ_LISTEN_PORT"
    assert by_name["listenPort"].flag_name == "--listen-port"
    assert by_name["brokerIP1"].environment_name == "COMETMQ_BROKER_IP1"
    assert by_name["brokerIP1"].flag_name == "--broker-ip1"


def test_the_later_layer_wins_and_an_old_key_means_the_same():
    settings, warnings = read_settings(
        Sample,
        [
            Layer(
                "file", {"listenPort": " 1 ", "mapedFileSize": "64", "brokerIP1": "10.0.0.1"}
            ),
            environment_layer(Sample, {"COMETMQ_LISTEN_PORT": "2", "COMETMQ_CACHE": "/x"}),
            flags_layer(Sample, ["--flush-disk-type=SYNC_FLUSH", "--broker-ip1", ""]),
        ],
    )
    assert settings == Sample(2, None, Flush.SYNC_FLUSH, 64)
    assert warnings == []


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("listenPort", "80%", r"up to 65535; RocketMQ would ignore it and use its default$"),
        ("listenPort", "65536", r"must be a whole number from 0 up to 65535$"),
        ("listenPort", "9" * 5000, r"must be a whole number from 0 up to 65535$"),
        ("flushDiskType", "sync", "one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("traceOn", "yes", r"must be true or false; RocketMQ would read it as false$"),
        (
            "mapedFileSize",
            "1G",
            r"mapedFileSize=1G must be a whole number; RocketMQ would ignore",
        ),
    ],
)
def test_what_is_allowed_is_said_and_what_rocketmq_would_do_with_another_text(key, text, said):
    with pytest.raises(SettingsError, match=said):
        read_settings(Sample, [Layer("file", {key: text})])


@pytest.mark.parametrize("flags", [["--listen-prt", "1"], ["--listen-port"], ["listenPort=1"]])
def test_a_flag_that_means_nothing_is_refused(flags):
    with pytest.raises(SettingsError, match="command line"):
        flags_layer(Sample, flags)


def test_only_what_is_on_the_allow_list_changes_over_the_wire_and_all_or_nothing():
    live = SettingsInForce(Sample())
    assert live.refused({"traceOn": "true", "listenPort": "1", "bogus": ""}) == [
        "listenPort",
        "bogus",
    ]
    with pytest.raises(SettingsError, match="listenPort"):
        live.change({"traceOn": "true", "listenPort": "1"})
    with pytest.raises(SettingsError, match="traceOn=maybe must be true or false"):
        live.change({"traceOn": "maybe"})
    assert not live.current.is_trace_on
    live.change({"traceOn": "true"})
    assert live.current.is_trace_on


def test_the_table_of_settings_is_sorted_text_without_what_is_not_set():
    assert settings_table(Sample()) == {
        "flushDiskType": "ASYNC_FLUSH",
        "listenPort": "10911",
        "mappedFileSizeCommitLog": "1073741824",
        "traceOn": "false",
    }
