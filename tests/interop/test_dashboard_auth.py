"""The dashboard on a cluster of Java's with Auth 2.0: its users and policies are those that `mqadmin` lists, whoever made them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cometmq import Admin, ClientSettings, Credentials
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused
from tests.dashboard.test_actions import seen_in
from tests.dashboard.web import Served, Visitor, text_of, wait_for
from tests.interop import admin_jvm
from tests.interop.test_auth_java import ADMIN, Java, java
from tests.support.accounts import tools_file

__all__ = ["java"]

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

CLERK, SECRET = "clerk", "secret-of-the-clerk"


class World(NamedTuple):
    """Java's cluster, a dashboard that signs as its administrator, and an admin who looks."""

    java: Java
    served: Served
    chief: Visitor

    def mqadmin(self, *words: str) -> str:
        """What it prints, signed by the administrator."""
        tools_file(self.java.folder / "home" / "conf" / "tools.yml", ADMIN)
        return admin_jvm.mqadmin(
            self.java.folder, self.java.names, *words, "-c", "DefaultCluster"
        )


@pytest.fixture(scope="module")
def world(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    signed = {"COMETMQ_ACCESS_KEY": ADMIN.access_key, "COMETMQ_SECRET_KEY": ADMIN.secret_key}
    folder: Path = tmp_path_factory.mktemp("dashboard")
    with Served(folder, java.names, env=signed) as served:
        chief = Visitor(served).log_in()
        wait_for(chief, "/", "1 of 1")
        yield World(java, served, chief)


def row_of(listed: str, name: str) -> list[str]:
    """The line of a table of mqadmin's that begins with a name."""
    (line,) = (each for each in listed.splitlines() if each.startswith(name))
    return line.split()


def may_make_topic(world: World) -> bool:
    """Whether Java lets the clerk make a topic."""
    settings = ClientSettings(credentials=Credentials(CLERK, SECRET))
    with Admin(world.java.names, settings=settings) as admin:
        try:
            admin.topics.create("made-by-clerk", queues=1)
        except BrokerRefused as refused:
            return refused.code != ResponseCode.NO_PERMISSION
    return True


def test_who_was_made_on_a_page_is_listed_by_mqadmin_may_what_it_says_and_goes(world):
    chief = world.chief
    fields = {"password": SECRET, "again": SECRET, "kind": "Normal"}
    made = text_of(chief.post("/users/create", name=CLERK, **fields))
    assert f"The user {CLERK} is created at every broker." in made
    assert row_of(world.mqadmin("listUser"), CLERK)[2:] == ["Normal", "enable"]
    assert not may_make_topic(world)

    entry = {"resource": "Topic:made-*", "decision": "Allow", "do_Create": "1", "do_Get": "1"}
    said = text_of(chief.post("/user/policy", name=CLERK, **entry))
    assert "Topic:made-* Allow Get, Create anywhere Custom broker-a:0" in said
    listed = row_of(world.mqadmin("getAcl", "-s", f"User:{CLERK}"), f"User:{CLERK}")
    assert "Topic:made-*" in listed
    assert "Allow" in listed
    assert may_make_topic(world)
    gone = chief.post("/user/policy/delete", name=CLERK, resource="Topic:made-*", sure="1")
    assert "is removed from the policy" in text_of(gone)
    assert "Topic:made-*" not in world.mqadmin("getAcl", "-s", f"User:{CLERK}")

    seen = seen_in(chief, CLERK, "/user")
    off = {"kind": "Normal", "state": "disable", "password": "", "again": ""}
    said = text_of(chief.post("/user/change", name=CLERK, seen=seen, **off))
    assert f"The user {CLERK} is changed at every broker." in said
    assert row_of(world.mqadmin("listUser"), CLERK)[3] == "disable"
    assert not may_make_topic(world)
    assert "is deleted" in text_of(chief.post("/user/delete", name=CLERK, sure=CLERK))
    assert CLERK not in world.mqadmin("listUser")
    assert SECRET not in world.served.program.log.read_text()


def test_who_was_made_by_mqadmin_is_on_the_page_and_may_log_in(world):
    made = world.mqadmin("createUser", "-u", "guest", "-p", "guest-secret", "-t", "Normal")
    assert "success" in made
    rights = ("-r", "Topic:orders*", "-a", "Sub,Get", "-i", "10.0.0.0/8", "-d", "Deny")
    assert "success" in world.mqadmin("createAcl", "-s", "User:guest", *rights)
    assert "guest" in wait_for(world.chief, "/users", "guest")
    page = text_of(world.chief.get("/user", name="guest"))
    assert "Topic:orders* Deny Sub, Get 10.0.0.0/8 Custom broker-a:0" in page
    assert "guest-secret" not in page
    visitor = Visitor(world.served)
    for secret, status in (("wrong-secret", 403), ("guest-secret", 303)):
        said = visitor.http.post("/login", data={"name": "guest", "password": secret})
        assert said.status_code == status, text_of(said)
    assert "read only · cluster" in text_of(visitor.get("/brokers"))
    assert "no permission" in text_of(visitor.get("/users"))
