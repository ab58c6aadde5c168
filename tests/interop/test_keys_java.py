"""The list of RocketMQ's keys is what the classes of 5.3.3 and 5.5.0 set."""

import re

import pytest

from cometmq.model.rocketmq_keys import ROCKETMQ_KEYS, WITHOUT_EFFECT
from tests.interop import reference
from tests.support.programs import run_program

CLASSES = (
    "common.BrokerIdentity",  # The base of BrokerConfig.
    "common.BrokerConfig",
    "store.config.MessageStoreConfig",
    "remoting.netty.NettyServerConfig",
    "remoting.netty.NettyClientConfig",
    "auth.config.AuthConfig",
    "common.namesrv.NamesrvConfig",
    "common.ControllerConfig",
)
# Parts with settings of their own, which people write into the same files.
PARTS = ("common.JraftConfig", "tieredstore.MessageStoreConfig")

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]


def keys_of(version: str, classes: tuple[str, ...] = CLASSES) -> set[str]:
    """The keys of a version: `setListenPort` sets listenPort (MixAll.properties2Object)."""
    names = [f"org.apache.rocketmq.{name}" for name in classes]
    path = f"{reference.jars(version)}/*"
    shown = run_program(reference.java("javap"), "-public", "-cp", path, *names)
    setters = re.findall(r" set(\w+)\([^,()]+\)", shown.stdout)
    return {name[0].lower() + name[1:] for name in setters}


def test_every_key_of_both_versions_is_in_the_list_and_nothing_else():
    assert keys_of(reference.VERSION) | keys_of(reference.NEWEST) == ROCKETMQ_KEYS


def test_every_key_of_its_parts_is_known_by_name():
    parts = keys_of(reference.VERSION, PARTS)
    assert len(parts) > 30
    assert parts <= ROCKETMQ_KEYS | WITHOUT_EFFECT.keys()
