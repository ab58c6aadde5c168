"""A namesrv.conf written for Java is read as it is; what is wrong in it is named."""

from __future__ import annotations

import pytest

from cometmq.model.errors import SettingsError
from cometmq.nameserver.server import NameServer
from cometmq.nameserver.settings import NameServerSettings, read_nameserver_settings
from cometmq.process.containers import Container
from tests.support.hand_clock import HandClock

# conf/namesrv.conf as people write it for 4.9 and 5.x.
JAVA_CONF = """\
# comment
rocketmqHome=/opt/rocketmq
kvConfigPath=/data/namesrv/kvConfig.json
configStorePath=/data/namesrv/namesrv.properties
listenPort=19876
serverWorkerThreads = 16
serverSelectorThreads: 3
orderMessageEnable=true
scanNotActiveBrokerInterval=10000
useEpollNativeSelector=true
clientCallbackExecutorThreads=4
"""


def read(tmp_path, text: str, *flags: str, **environment: str):
    path = tmp_path / "namesrv.conf"
    path.write_text(text)
    settings, _, warnings = read_nameserver_settings(str(path), flags, environment)
    return settings, warnings


def test_a_java_conf_file_is_read_without_a_warning(tmp_path):
    settings, warnings = read(tmp_path, JAVA_CONF)
    assert warnings == []
    assert settings == NameServerSettings(
        listen_port=19876,
        kv_config_path="/data/namesrv/kvConfig.json",
        is_order_message_enabled=True,
        scan_interval_ms=10_000,
    )


@pytest.mark.parametrize("path", [None, ""])
def test_without_a_path_there_is_no_conf_file(path):
    settings, file, _ = read_nameserver_settings(path, (), {})
    assert (settings, file.path) == (NameServerSettings(), None)


def test_the_defaults_are_those_of_java_but_it_listens_on_loopback(clock):
    settings = NameServerSettings()
    assert (settings.listen_port, settings.scan_interval_ms) == (9876, 5000)
    assert settings.wait_seconds == 45
    assert NameServer(settings, clock, find_container=lambda: None).host == "127.0.0.1"
    opened = NameServerSettings(bind_address="0.0.0.0")
    assert NameServer(opened, clock, find_container=lambda: None).host == "0.0.0.0"


def test_in_a_container_it_listens_on_every_address_unless_one_is_bound():
    container = Container("Podman", "/run/.containerenv", is_own_machine_certain=False)
    for bound, host in (None, "0.0.0.0"), ("127.0.0.1", "127.0.0.1"):
        settings = NameServerSettings(bind_address=bound)
        server = NameServer(settings, HandClock(), find_container=lambda: container)
        assert server.host == host


def test_flags_beat_environment_and_environment_beats_the_file(tmp_path):
    text = "listenPort=1\nwaitSecondsForService=1\nenableTopicList=false"
    both = {"COMETMQ_LISTEN_PORT": "2", "COMETMQ_WAIT_SECONDS_FOR_SERVICE": "2"}
    settings, _ = read(tmp_path, text, "--listen-port", "3", **both)
    assert (settings.listen_port, settings.wait_seconds) == (3, 2)
    assert not settings.is_topic_list_enabled


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("listenPrt=1\n", "unknown setting listenPrt; did you mean listenPort?"),
        (
            "controllerType=jRaft\nbrokerClusterName=a\n",
            "brokerClusterName=a has no effect here: this program has no such setting",
        ),
    ],
)
def test_an_unknown_key_and_one_of_another_program_are_a_warning_each(tmp_path, text, warning):
    _, warnings = read(tmp_path, text)
    assert len(warnings) == 1
    assert warning in warnings[0]


@pytest.mark.parametrize("key", ["notifyMinBrokerIdChanged", "enableControllerInNamesrv"])
def test_what_is_not_built_yet_is_a_warning_when_it_is_switched_on(tmp_path, key):
    _, warnings = read(tmp_path, f"{key}=true\n")
    assert f"{key}=true has no effect here: it is not implemented yet" in warnings[0]
    assert read(tmp_path, f"{key}=false\n")[1] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("listenPort=70000", "listenPort=70000 must be a whole number from 0 up to 65535"),
        ("listenPort=x", "listenPort=x must be"),
        ("orderMessageEnable=yes", "orderMessageEnable=yes must be true or false"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_name(tmp_path, text, complaint):
    with pytest.raises(SettingsError, match=complaint):
        read(tmp_path, text)


def test_a_missing_conf_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"nowhere\.conf: No such file"):
        read_nameserver_settings(str(tmp_path / "nowhere.conf"), (), {})


def test_a_change_over_the_wire_is_kept_beside_the_file_and_beats_it(tmp_path):
    path = tmp_path / "namesrv.conf"
    path.write_text("waitSecondsForService=1\n")
    _, conf, _ = read_nameserver_settings(str(path), (), {})
    conf.remember({"waitSecondsForService": "2"})
    conf.remember({"enableTopicList": "false"})
    settings, _, warnings = read_nameserver_settings(str(path), (), {})
    assert (settings.wait_seconds, settings.is_topic_list_enabled, warnings) == (2, False, [])
    assert path.read_text() == "waitSecondsForService=1\n"
