"""Each command of a cluster has one public method, which it calls, and where it shows something a page of the dashboard."""

import inspect
import sys
from typing import Any, NamedTuple

import pytest

from cometmq.client.sync.client import BlockingNoun
from cometmq.dashboard.pages import PAGES
from tests.support.command_line import commands
from tests.support.public_names import public

# Programs, files of this machine, and jobs of Spark.
OTHERS = {
    "up",
    "nameserver",
    "broker",
    "proxy",
    "config",
    "profile",
    "dashboard",
    "pipeline",
    "store",
}


class Faces(NamedTuple):
    """The public method of a command, and the page that shows the same; None for one that no page shows."""

    method: str
    page: str | None


TABLE = {
    "doctor": Faces("Admin.health.check", "/doctor"),
    "cluster producers": Faces("Admin.groups.producers", "/producers"),
    "cluster replicas": Faces("Admin.brokers.copies", "/replicas"),
    "cluster list": Faces("Admin.brokers.list", "/brokers"),
    "cluster show": Faces("Admin.brokers.runtime", "/broker"),
    "cluster config": Faces("Admin.brokers.settings", "/broker"),
    "cluster set": Faces("Admin.brokers.set", None),
    "cluster drain": Faces("Admin.brokers.drain", None),
    "cluster undrain": Faces("Admin.brokers.undrain", None),
    "cluster promote": Faces("Admin.brokers.promote", None),
    "cluster demote": Faces("Admin.brokers.demote", None),
    "cluster transfer": Faces("Admin.brokers.transfer", None),
    "cluster member add": Faces("Admin.brokers.add_member", None),
    "cluster member remove": Faces("Admin.brokers.remove_member", None),
    "kv list": Faces("Admin.brokers.kv_values", "/kv"),
    "kv show": Faces("Admin.brokers.kv_values", "/kv"),
    "kv set": Faces("Admin.brokers.set_kv_value", "/kv/set"),
    "kv delete": Faces("Admin.brokers.delete_kv_value", "/kv/delete"),
    "acl list": Faces("Admin.users.list", "/users"),
    "acl show": Faces("Admin.users.list", "/user"),
    "acl create": Faces("Admin.users.create", "/users/create"),
    "acl set": Faces("Admin.users.set", "/user/change"),
    "acl delete": Faces("Admin.users.delete", "/user/delete"),
    "acl allow": Faces("Admin.users.put_entry", "/user/policy"),
    "acl deny": Faces("Admin.users.put_entry", "/user/policy"),
    "acl remove": Faces("Admin.users.delete_entry", "/user/policy/delete"),
    "acl test": Faces("Admin.users.list", None),
    "acl copy": Faces("Admin.users.put", None),
    "send": Faces("Producer.send", "/topic/send"),
    "tail": Faces("PullConsumer.fetch", "/tail"),
    "consume": Faces("PushConsumer.wait", None),
    "explain": Faces("Admin.messages.explain", "/message"),
    "group conflicts": Faces("Admin.groups.conflicts", "/group"),
    "topic list": Faces("Admin.topics.kinds", "/topics"),
    "topic create": Faces("Admin.topics.create", "/topics/create"),
    "topic show": Faces("Admin.topics.show", "/topic"),
    "topic set": Faces("Admin.topics.set", "/topic/change"),
    "topic delete": Faces("Admin.topics.delete", "/topic/delete"),
    "group list": Faces("Admin.groups.list", "/groups"),
    "group show": Faces("Admin.groups.show", "/group"),
    "group create": Faces("Admin.groups.create", "/groups/create"),
    "group set": Faces("Admin.groups.set", "/group/change"),
    "group delete": Faces("Admin.groups.delete", "/group/delete"),
    "offset show": Faces("Admin.groups.show", "/group"),
    "offset reset": Faces("Admin.offsets.reset", "/group/reset"),
    "offset skip": Faces("Admin.offsets.reset", "/group/reset"),
    "offset copy": Faces("Admin.offsets.set", None),
    "offset export": Faces("Admin.offsets.progress", "/group"),
    "offset import": Faces("Admin.offsets.set", None),
    "message find": Faces("Admin.messages.find", "/messages"),
    "message delayed": Faces("Admin.messages.delayed", "/waiting"),
    "message recall": Faces("Admin.messages.recall", None),
    "message trace": Faces("Admin.messages.trace", "/trace"),
    "message resend": Faces("Admin.messages.resend", "/message/resend"),
    "dlq list": Faces("Admin.dead_letters.list", "/dead"),
    "dlq show": Faces("Admin.dead_letters.read", "/dead/group"),
    "dlq stats": Faces("Admin.dead_letters.stats", "/dead/stats"),
    "dlq replay": Faces("Admin.dead_letters.replay_all", "/dead/replay"),
    "dlq export": Faces("Admin.dead_letters.read", "/dead/export"),
    "dlq delete": Faces("Admin.dead_letters.delete", "/dead/delete"),
    "transactions list": Faces("Admin.transactions.discarded", "/waiting"),
    "transactions resume": Faces("Admin.transactions.resume", "/message/resume"),
}
# What they show no page shows, and why.
WITHOUT_PAGE = {
    "acl copy": "what it has changed; it reads a file of a broker",
    "acl test": "an answer by the table of a broker's requests; /user shows the entries that decide",
    "consume": "messages that it takes away from the other members of a group",
    "offset copy": "what it has changed",
    "offset import": "what it has changed; it reads a file",
}
# They have other clients.
NOT_CALLED = ("send", "tail", "consume")


COMMANDS = {" ".join(words): each for words, each in commands().items()}
OF_CLUSTER = {name: each for name, each in COMMANDS.items() if name.split()[0] not in OTHERS}
# What they print programs can read, too.
SHOWING = {
    name
    for name, each in OF_CLUSTER.items()
    if name.endswith(" export") or any("--json" in option.opts for option in each.params)
}
IS_ACTION = {page.path: page.does is not None for page in PAGES}


def test_the_table_has_every_command_of_a_cluster():
    assert OF_CLUSTER.keys() == TABLE.keys()


def method_of(text: str) -> Any:
    """The public method of that name; of a subject by its twin's class, such as TopicAdmin."""
    name, *parts = text.split(".")
    found = public(name)
    for part in parts[:-1]:
        found = public(inspect.signature(getattr(found, part).fget).return_annotation)
        assert issubclass(found, BlockingNoun)
    return getattr(found, parts[-1])


@pytest.mark.parametrize("name", TABLE)
def test_a_command_calls_its_public_method_and_its_page_exists(name):
    faces = TABLE[name]
    assert inspect.isfunction(method_of(faces.method))
    if not name.startswith(NOT_CALLED):
        noun, method = faces.method.split(".")[1:]
        module = sys.modules[OF_CLUSTER[name].callback.__module__]
        text = inspect.getsource(module)
        is_called = f".{noun}.{method}(" in text or (
            f".admin.{noun}\n" in text and f".{method}(" in text
        )
        assert is_called, f"no call of {noun}.{method}"


def test_what_a_command_shows_a_page_shows():
    assert {name for name in SHOWING if TABLE[name].page is None} == WITHOUT_PAGE.keys()


@pytest.mark.parametrize("name", TABLE)
def test_its_page_is_there_and_an_action_where_it_only_changes_something(name):
    page = TABLE[name].page
    if page is not None:
        assert page in IS_ACTION
        assert IS_ACTION[page] or name in SHOWING
