"""Each key of RocketMQ is known by name, and what becomes of it is said once and truly."""

from __future__ import annotations

import pytest

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.settings.unsupported_keys import UNSUPPORTED_KEYS
from cometmq.model.judged_keys import (
    BYTE_ORDER_MARK,
    KeyVerdict,
    Reading,
    judge_keys,
    warnings_of,
)
from cometmq.model.rocketmq_keys import GROUPS, ROCKETMQ_KEYS, USED, WITHOUT_EFFECT
from cometmq.model.settings import Layer, settings_by_name
from cometmq.nameserver.settings import UNSUPPORTED_KEYS as OF_NAMESERVER
from cometmq.nameserver.settings import NameServerSettings

BROKER, NAMESERVER = settings_by_name(BrokerSettings), settings_by_name(NameServerSettings)
REFUSED = {key for each in (*UNSUPPORTED_KEYS, *OF_NAMESERVER) for key in each.keys}


def judged(*layers: dict[str, str], kind: type = BrokerSettings) -> Reading:
    given = [Layer(f"layer {number}", values) for number, values in enumerate(layers)]
    return judge_keys(kind, given, UNSUPPORTED_KEYS)


def verdict(key: str, text: str) -> tuple[KeyVerdict, str]:
    (one,) = judged({key: text}).judged
    return one.verdict, one.why


def test_no_key_stands_twice_and_what_is_used_is_a_setting_of_a_program():
    names = [key for group in GROUPS for key in group.nothing]
    assert len(names) == len(set(names))
    programs = BROKER.keys() | NAMESERVER.keys() | REFUSED
    assert programs >= USED
    assert not programs & WITHOUT_EFFECT.keys()


@pytest.mark.parametrize("kind", [BrokerSettings, NameServerSettings])
def test_no_key_of_rocketmq_is_unknown_to_a_program(kind):
    found = judged(dict.fromkeys([*ROCKETMQ_KEYS, *WITHOUT_EFFECT], "1"), kind=kind).judged
    assert [each.key for each in found if each.verdict is KeyVerdict.UNKNOWN] == []
    assert [
        each.key for each in found if each.why == "" and each.verdict is not KeyVerdict.USED
    ] == []


def test_a_file_with_rocketmqs_defaults_of_what_is_missing_has_no_warning():
    values = {key: text for group in GROUPS for key, text in group.nothing.items()}
    reading = judged(values)
    assert warnings_of(reading.judged) == []
    assert {each.verdict for each in reading.judged} == {KeyVerdict.NO_EFFECT}


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("brokerName", "a", KeyVerdict.USED),
        ("sendMessageThreadPoolNums", "8", KeyVerdict.NO_EFFECT),
        ("storePathIndex", "/x", KeyVerdict.NO_EFFECT),
        ("timerCongestNumEachSlot", "100", KeyVerdict.MISSING),
        ("timerCongestNumEachSlot", "2147483647", KeyVerdict.NO_EFFECT),
        ("enableControllerMode", "true", KeyVerdict.REFUSED),
        ("enableControllerMode", "false", KeyVerdict.NO_EFFECT),
        ("metricsExporterType", "LOG", KeyVerdict.MISSING),
        ("metricsExporterType", "PROM", KeyVerdict.USED),
        ("waitSecondsForService", "9", KeyVerdict.MISPLACED),
        ("clusterName", "", KeyVerdict.NO_EFFECT),
        ("enableLmq", "true", KeyVerdict.DIFFERS),
        ("enableLmq", "false", KeyVerdict.USED),
        ("listenPort", "99999", KeyVerdict.REFUSED),
        ("listenPorts", "1", KeyVerdict.UNKNOWN),
        ("grpcServerPort", "8081", KeyVerdict.USED),
        ("grpcThreadPoolNums", "8", KeyVerdict.NO_EFFECT),
        ("configBlackList", "configBlackList;brokerConfigPath", KeyVerdict.NO_EFFECT),
        ("configBlackList", "brokerPermission", KeyVerdict.MISSING),
    ],
)
def test_what_becomes_of_a_key(key, text, expected):
    assert verdict(key, text)[0] is expected


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("listenPorts", "listenPort"),
        ("brokerIp1", "brokerIP1"),
        ("flushDiskTyp", "flushDiskType"),
        ("borkerName", "brokerName"),
        # Other words, which somebody meant: a hint would mislead.
        ("autoDeleteTopicEnable", None),
        ("fastListenPort", None),
        ("x", None),
    ],
)
def test_only_what_is_near_is_suggested(key, meant):
    assert verdict(key, "1") == (KeyVerdict.UNKNOWN, f"did you mean {meant}?" if meant else "")


def test_only_the_last_layer_counts_for_what_is_refused():
    off, on = {"enableControllerMode": "false"}, {"enableControllerMode": "true"}
    assert KeyVerdict.REFUSED not in {each.verdict for each in judged(on, off).judged}
    assert judged(off, on).judged[1].verdict is KeyVerdict.REFUSED


def test_a_byte_order_mark_is_named():
    found, why = verdict(f"{BYTE_ORDER_MARK}brokerName", "a")
    assert found is KeyVerdict.UNKNOWN
    assert "byte order mark" in why


def test_values_that_sound_secret_are_hidden_and_others_are_readable():
    texts = {
        each.key: each.text
        for each in judged(
            {"initAuthenticationUser": "{}", "objectStoreSecretKey": "k", "brokerName": "a\x1b"}
        ).judged
    }
    assert texts == {
        "initAuthenticationUser": "******", "objectStoreSecretKey": "******", "brokerName": "a\\x1b",
    }  # fmt: skip
