"""A Java broker.conf is understood as it is, and what is wrong in it is named."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.broker.registration.addresses import Addresses, addresses_of
from cometmq.broker.replication.terms import copy_rule, link_terms, slave_rates
from cometmq.broker.settings.broker_settings import (
    BrokerRole,
    load_settings,
)
from cometmq.broker.settings.replica_keys import split_addresses
from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.model.errors import SettingsError
from cometmq.model.rocketmq_keys import WITHOUT_EFFECT, why_without_effect
from cometmq.process.containers import Container

JAVA_CONF = """\
# Licensed to the Apache Software Foundation (ASF) under one or more
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = SYNC_MASTER
flushDiskType = SYNC_FLUSH
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
brokerIP1=127.0.0.1
mapedFileSizeCommitLog=1048576
storePathRootDir=/data/store
storePathCommitLog=/data/store/commitlog
storePathConsumeQueue=/data/store/consumequeue
storePathIndex=/data/store/index
storeCheckpoint=/data/store/checkpoint
abortFile=/data/store/abort
maxMessageSize=65536
messageDelayLevel=1s 2m 3h
sendMessageThreadPoolNums=128
"""


def load(tmp_path, text, **more):
    path = tmp_path / "broker.conf"
    path.write_text(text)
    return load_settings(str(path), environment=more.pop("environment", {}), **more)


def test_an_unmodified_java_file_is_read_without_a_warning(tmp_path):
    settings, warnings = load(tmp_path, JAVA_CONF)
    assert warnings == []
    assert settings.broker_role is BrokerRole.SYNC_MASTER
    assert settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
    assert settings.nameserver_addresses == ("10.0.0.1:9876", "10.0.0.2:9876")
    store = settings.store_settings()
    assert store.commitlog_file_size == 1 << 20
    assert store.flush_sync
    assert store.delay_levels_ms == (1_000, 120_000, 10_800_000)
    assert settings.body_size_max == 65_536


def test_without_an_address_it_listens_on_loopback(tmp_path):
    settings, _ = load(tmp_path, "")
    assert settings.listen_port == 10911
    assert listening(tmp_path, "") == ("127.0.0.1", "127.0.0.1")
    assert listening(tmp_path, "bindAddress=\nbrokerIP1=\n") == ("127.0.0.1", "127.0.0.1")
    opened = "bindAddress=0.0.0.0\nbrokerIP1=10.0.0.9\n"
    assert listening(tmp_path, opened) == ("10.0.0.9", "0.0.0.0")


def listening(tmp_path, text: str, container: Container | None = None) -> tuple[str, str]:
    """The IP that is registered and the host that is listened on, in this container."""
    settings, _ = load(tmp_path, text)
    addresses = addresses_of(settings, find_container=lambda: container)
    assert addresses.container is (None if settings.bind_address else container)
    assert addresses.is_own_machine_certain
    return addresses.told_ip, addresses.listen_host


@pytest.mark.parametrize(
    ("text", "told", "host"),
    [
        ("brokerIP1=127.0.0.1", "127.0.0.1", "0.0.0.0"),
        ("brokerIP1=10.0.0.9", "10.0.0.9", "0.0.0.0"),
        ("brokerIP1=fd00::9", "fd00::9", "::"),
        ("bindAddress=127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("bindAddress=127.0.0.1\nbrokerIP1=10.0.0.9", "10.0.0.9", "127.0.0.1"),
    ],
)
def test_in_a_container_it_listens_on_every_address_unless_one_is_bound(
    tmp_path, caplog, text, told, host
):
    container = Container("Docker", "/.dockerenv", is_own_machine_certain=True)
    with caplog.at_level(logging.INFO):
        assert listening(tmp_path, text, container) == (told, host)
    is_bound = "bindAddress" in text
    assert ("this is a Docker container (/.dockerenv)" in caplog.text) is not is_bound
    assert "loopback only" not in caplog.text


def test_the_start_says_that_it_listens_on_loopback_only_and_what_opens_it(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        listening(tmp_path, "")
    (said,) = caplog.records
    assert said.levelno == logging.INFO
    assert said.getMessage() == (
        "listening on loopback only, 127.0.0.1: other machines cannot connect, even through a published port of a "
        "container; write bindAddress=0.0.0.0 to listen on all addresses"
    )


def test_an_address_may_stand_in_brackets(tmp_path):
    settings, _ = load(
        tmp_path,
        "bindAddress=[::1]\nbrokerIP1=[::1]\nbrokerIP2=[fd00::2]\nmetricsPromExporterHost=[::1]\n"
        "haAllowedAddresses=[fd00::3],10.0.0.1\n",
    )
    assert (settings.bind_address, settings.broker_ip, settings.ha_ip) == (
        "::1",
        "::1",
        "fd00::2",
    )
    assert settings.metrics_host == "::1"
    assert split_addresses(settings.ha_allowed) == ["fd00::3", "10.0.0.1"]
    assert addresses_of(settings) == Addresses("::1", "::1")


PEERS = "n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911"


def group_conf(**changed: str) -> str:
    """What a member of a group has in its file."""
    values = {
        "enableDLegerCommitLog": "true",
        "dLegerPeers": PEERS,
        "dLegerSelfId": "n1",
        **changed,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "namesrvAddr=a:9876,b:9876",
            "RocketMQ separates nameservers by ; so a:9876,b:9876 is read as one",
        ),
        ("namesrvAddr=c:1;a:9876 b:9876", "write a:9876;b:9876"),
        (
            "namesrvAddr=names",
            "names: an address must be host:port, with a port from 1 to 65535",
        ),
        ("flushDiskTypo=SYNC_FLUSH", "flushDiskType"),
        ("fetchNamesrvAddrByAddressServer=true", "fetchNamesrvAddrByAddressServer"),
        ("enableRemoteEscape=true", "enableRemoteEscape"),
        (group_conf(dLegerPeers=f"{PEERS};n3-10.0.0.4:40911"), "write 3 or 5"),
    ],
)
def test_what_is_likely_a_mistake_or_has_no_effect_is_warned_of_with_a_hint(
    tmp_path, text, hint
):
    _, warnings = load(tmp_path, f"{text}\n")
    assert len(warnings) == 1
    assert hint in warnings[0]


def test_missing_effects_are_a_sentence_each_and_hints_are_for_keys_nobody_has(tmp_path):
    text = (
        "adminBrokerThreadPoolNums=16\nbrokerNames=a\nadminBrokerThreadPoolNum=1\nautoDeleteTopicEnable=true\n"
        "replicasPerDiskPartition=2\nenableLmqQuota=false\nkvConfigPath=x\nwaitSecondsForService=1\n"
    )
    _, warnings = load(tmp_path, text)
    assert [each.removeprefix(f"{tmp_path / 'broker.conf'}: ") for each in warnings] == [
        "unknown setting brokerNames; did you mean brokerName?",
        "unknown setting adminBrokerThreadPoolNum; did you mean adminBrokerThreadPoolNums?",
        "unknown setting autoDeleteTopicEnable",
        f"replicasPerDiskPartition=2 has no effect here: {WITHOUT_EFFECT['replicasPerDiskPartition'].why}",
        f"kvConfigPath=x, waitSecondsForService=1 have no effect here: {why_without_effect('kvConfigPath')}",
    ]


def test_a_key_of_rocketmq_as_a_flag_is_refused_with_the_reason():
    with pytest.raises(
        SettingsError,
        match=r"--admin-broker-thread-pool-nums has no effect here: requests are served by one event loop",
    ):
        load_settings(None, environment={}, arguments=["--admin-broker-thread-pool-nums", "1"])


def test_flags_outrank_environment_outranks_file_outranks_namesrv_addr(tmp_path):
    text = "listenPort=1000\nbrokerName=file\nbrokerId=1\nnamesrvAddr=file:1\n"
    environment = {
        "COMETMQ_BROKER_NAME": "environment", "COMETMQ_BROKER_ID": "2", "NAMESRV_ADDR": "n:1",
    }  # fmt: skip
    settings, _ = load(tmp_path, text, environment=environment, arguments=["--broker-id", "3"])
    assert (settings.listen_port, settings.broker_name) == (1000, "environment")
    assert (settings.broker_id, settings.nameservers) == (3, "file:1")
    settings, _ = load(tmp_path, "", environment=environment)
    assert settings.nameservers == "n:1"


@pytest.mark.parametrize(
    "line",
    [
        "listenPort=99999",
        "flushDiskType=SOMETIMES",
        "autoCreateTopicEnable=perhaps",
        "mappedFileSizeCommitLog=1GB",
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(tmp_path, line):
    key, _, value = line.partition("=")
    with pytest.raises(SettingsError, match=f"{key}={value}"):
        load(tmp_path, line)


@pytest.mark.parametrize(
    "text",
    [
        "messageDelayLevel=1s soon",
        f"messageDelayLevel=1s {'9' * 5000}s",
        "deleteWhen=04;24",
        f"deleteWhen={'9' * 5000}",
        "deleteWhen=four",
        "storePathCommitLog=/disk1/log,/disk2/log\nreadOnlyCommitLogStorePaths=/disk2/log,/disk1/log",
    ],
)
def test_what_the_store_cannot_take_is_refused_at_the_start(tmp_path, text):
    settings, _ = load(tmp_path, text)
    with pytest.raises(SettingsError):
        settings.store_settings()


def test_directories_and_hours_are_lists(tmp_path):
    settings, _ = load(
        tmp_path,
        "storePathCommitLog=/disk1/log, /disk2/log\nreadOnlyCommitLogStorePaths=/disk1/log\n"
        "deleteWhen=04;16\nfileReservedTime=48\n",
    )
    store = settings.store_settings()
    assert store.commitlog_paths == ("/disk1/log", "/disk2/log")
    assert store.read_only_commitlog_paths == ("/disk1/log",)
    assert store.retention.delete_hours == {4, 16}
    assert store.retention.reserved_ms == 48 * 3_600_000


def test_what_would_leave_the_broker_open_is_refused_and_what_is_missing_is_noted(tmp_path):
    with pytest.raises(SettingsError, match="authorizationEnabled=true needs"):
        load(tmp_path, "authorizationEnabled=true\n")
    with pytest.raises(
        SettingsError, match="write enableControllerMode=false and enableDLeger"
    ):
        load(tmp_path, "enableControllerMode=true\nenableDLegerCommitLog=true\n")
    _, warnings = load(tmp_path, "enableRemoteEscape=true\nenableLmq=false\n")
    assert len(warnings) == 1
    assert "enableRemoteEscape" in warnings[0]


def test_the_environment_is_not_passed_over_where_it_asks_for_protection(tmp_path):
    with pytest.raises(SettingsError, match="authorizationEnabled=true needs"):
        load(tmp_path, "", environment={"COMETMQ_AUTHORIZATION_ENABLED": "true"})


def test_what_asks_for_nothing_says_nothing(tmp_path):
    text = """
inSyncReplicas=1
storeType=default
configManagerVersion=v1
metricsExporterType=DISABLE
tls.server.mode=permissive
enableControllerMode=false
messageStorePlugIn=
"""
    assert load(tmp_path, "brokerRole=SYNC_MASTER" + text)[1] == []
    assert load(tmp_path, "inSyncReplicas=2\n")[1] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("inSyncReplicas=3\ntotalReplicas=2", "inSyncReplicas=3: .* write at most 2"),
        ("inSyncReplicas=2\nminInSyncReplicas=3", "minInSyncReplicas=3 is .* write at most 2"),
        (
            "haAllowedAddresses=10.0.0.1,broker-b",
            "haAllowedAddresses=.*broker-b is neither an IP address",
        ),
        ("haHousekeepingInterval=5000", "haHousekeepingInterval=5000: .*write 10000 or more"),
        ("haMasterAddress=10.0.0.1", "haMasterAddress=10.0.0.1: it must be ip:port"),
        ("haMasterAddress=10.0.0.1:99999", "haMasterAddress=10.0.0.1:99999: it must be"),
        ("haMasterAddress=:10912", "haMasterAddress=:10912: it must be"),
        ("haTransferBatchSize=4194304", "haTransferBatchSize=4194304 must be"),
        (
            "maxHaTransferByteInSecond=0",
            "maxHaTransferByteInSecond=0 must be a whole number from 1",
        ),
        ("maxHaTransferByteInSecond=-1", "maxHaTransferByteInSecond=-1 must be"),
        (f"maxHaTransferByteInSecond={1 << 63}", f"up to {(1 << 63) - 1}"),
        ("haFlowControlEnable=yes", "haFlowControlEnable=yes must be true or false"),
        # What no slave does yet, with what to use today.
        ("enableSlaveActingMaster=true", "by hand"),
        ("brokerConfigPaths=/a/broker.conf:/b/broker.conf", "once for each"),
    ],
)
def test_what_copies_cannot_keep_is_refused(tmp_path, text, said):
    with pytest.raises(SettingsError, match=said):
        load(tmp_path, text + "\n")


def test_what_a_master_waits_for_is_two_copies_unless_the_file_says_another_number(tmp_path):
    def needed(text: str) -> int:
        return copy_rule(load(tmp_path, text + "\n")[0]).needed

    assert needed("brokerRole=SYNC_MASTER") == 2
    assert needed("brokerRole=SYNC_MASTER\ninSyncReplicas=3") == 3
    assert needed("brokerRole=SYNC_MASTER\ninSyncReplicas=1") == 1
    assert needed("brokerRole=ASYNC_MASTER\ninSyncReplicas=3") == 1


def test_what_a_slave_is_sent_in_a_second_has_a_bound_where_the_file_asks_for_one(tmp_path):
    def rate(text: str) -> int | None:
        settings, warnings = load(tmp_path, text + "\n")
        assert warnings == []
        return slave_rates(settings).most

    assert rate("maxHaTransferByteInSecond=1000") is None
    assert rate("haFlowControlEnable=true") == 100 << 20
    assert rate("haFlowControlEnable=true\nmaxHaTransferByteInSecond=1000") == 1_000


def test_a_secret_that_others_can_read_is_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef\n")
    settings, _ = load(tmp_path, f"haSecretFile={secret}\n")
    secret.chmod(0o640)
    with pytest.raises(SettingsError, match=r"haSecretFile=.*mode 0640.*chmod 600"):
        link_terms(settings)
    secret.chmod(0o600)
    assert link_terms(settings).secret == b"0123456789abcdef"
    secret.write_bytes(b"short")
    with pytest.raises(SettingsError, match="5 bytes, but at least 16"):
        link_terms(settings)
    secret.unlink()
    with pytest.raises(SettingsError, match=r"haSecretFile=.*No such file"):
        link_terms(settings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("brokerRole=SLAVE\n", "brokerRole=SLAVE with brokerId=0: .* write brokerId=1"),
        ("brokerId=2\n", "brokerId=2 with brokerRole=ASYNC_MASTER: .* write brokerId=0"),
    ],
)
def test_an_id_of_another_role_is_refused_with_what_to_write(tmp_path, text, told):
    settings, _ = load(tmp_path, text)
    with pytest.raises(SettingsError, match=told):
        settings.check_role()


def test_a_slave_is_one(tmp_path):
    settings, warnings = load(tmp_path, "brokerRole=SLAVE\nbrokerId=1\n")
    settings.check_role()
    assert (settings.is_slave, warnings) == (True, [])


def test_the_page_of_settings_is_up_to_date():
    check = subprocess.run(
        [sys.executable, "tools/settings_table.py", "--check"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert check.returncode == 0, check.stdout


@pytest.mark.parametrize(
    ("lines", "buffers"),
    [
        ("", 0),
        ("transientStorePoolEnable=true\n", 5),
        ("transientStorePoolEnable=true\ntransientStorePoolSize=2\n", 2),
        ("transientStorePoolEnable=true\nflushDiskType=SYNC_FLUSH\n", 0),
        ("transientStorePoolEnable=true\nbrokerRole=SLAVE\nbrokerId=1\n", 0),
        ("transientStorePoolEnable=true\nbrokerRole=SYNC_MASTER\n", 5),
    ],
)
def test_the_transient_pool_is_for_asynchronous_flush(tmp_path, lines, buffers):
    settings, warnings = load(tmp_path, lines)
    assert settings.store_settings().pool_buffers == buffers
    assert warnings == []


def test_a_member_of_a_group_reads_its_members(tmp_path):
    settings, warnings = load(tmp_path, group_conf(preferredLeaderId="n2"))
    assert not warnings
    assert settings.is_elected
    assert list(settings.peer_addresses().items()) == [
        ("n0", ("10.0.0.1", 40911)),
        ("n1", ("10.0.0.2", 40911)),
        ("n2", ("10.0.0.3", 40911)),
    ]
    settings, _ = load(tmp_path, "brokerName=a\n")
    assert not settings.is_elected


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dLegerPeers": ""}, "it has 0 members"),
        ({"dLegerPeers": "n0-10.0.0.1:40911;n1-10.0.0.2:40911"}, "it has 2 members"),
        (
            {"dLegerPeers": PEERS.replace("n2", "n0")},
            "n0-10.0.0.3:40911: each member needs an id of its own",
        ),
        (
            {"dLegerPeers": PEERS.replace(".3", ".2")},
            "n2-10.0.0.2:40911: another member has the same address",
        ),
        ({"dLegerPeers": PEERS.replace(";", ",")}, "members are separated by ;"),
        ({"dLegerPeers": PEERS.replace(":", "/")}, "is not ID-HOST:PORT"),
        ({"dLegerPeers": PEERS.replace("n2", "n" * 65)}, "the id of a member has 1 to 64 "),
        ({"dLegerPeers": PEERS.replace("n2", "n\x01")}, "printable ASCII characters"),
        ({"dLegerPeers": PEERS.replace("10.0.0.3", "höst")}, "a host as xn--NAME"),
        ({"dLegerPeers": PEERS.replace("10.0.0.3", "a..b")}, "a host has at most 253 "),
        ({"dLegerSelfId": "n7"}, "has the members n0, n1, n2; write dLegerSelfId=n0"),
        ({"preferredLeaderId": "n7"}, "has the members n0, n1, n2; write one of them"),
    ],
)
def test_a_list_of_members_that_cannot_work_is_refused(tmp_path, changed, said):
    with pytest.raises(SettingsError, match=said):
        load(tmp_path, group_conf(**changed))
