"""Users and policies of the cluster: made, changed, allowed, denied and deleted by an admin; seen by nobody who must not; right and wrong input."""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from cometmq import (
    Admin,
    AsyncAdmin,
    ClientSettings,
    Credentials,
    Message,
    Producer,
    ProducerSettings,
)
from cometmq.admin import GroupConfig
from cometmq.model.codes import RequestCode
from cometmq.model.errors import BrokerRefused
from tests.dashboard.conftest import auth_cluster
from tests.dashboard.test_actions import seen_in
from tests.dashboard.test_browser import LOOKS, SCREENS, Watched, overflow
from tests.dashboard.test_commands import ELSEWHERE, check_page, printed
from tests.dashboard.web import ADMIN, READER, READER_PASSWORD, Served, Visitor, text_of
from tests.dashboard.world import RIGHT_TO_LEFT, SCRIPT
from tests.e2e.test_operators_acl import answered, policies_of
from tests.e2e.test_operators_doctor import script
from tests.support.auth_users import ROOT
from tests.support.chromium import chromium
from tests.support.processes import wait_until
from tests.support.scripted import Scripted

SECRET = "secret-of-somebody"


@pytest.fixture(scope="module")
def users_nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with auth_cluster(tmp_path_factory.mktemp("users"), nameserver_too=False) as address:
        yield address


@pytest.fixture(scope="module")
def trusted(
    users_nameserver: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A dashboard of that cluster, which signs what it asks as ROOT."""
    signed = {"COMETMQ_ACCESS_KEY": ROOT.access_key, "COMETMQ_SECRET_KEY": ROOT.secret_key}
    with Served(tmp_path_factory.mktemp("trusted"), users_nameserver, env=signed) as made:
        yield made


@pytest.fixture(scope="module")
def chief(trusted: Served) -> Visitor:
    """An admin of a dashboard that signs as the cluster's Super user."""
    return Visitor(trusted).log_in()


def create(visitor: Visitor, name: str, **fields: str) -> str:
    typed: dict[str, Any] = {"password": SECRET, "again": SECRET, "kind": "Normal", **fields}
    return text_of(visitor.post("/users/create", name=name, **typed))


def user_seen(visitor: Visitor, name: str) -> str:
    return seen_in(visitor, name, "/user")


def refusal_of(nameserver: str, name: str, secret: str = SECRET) -> str:
    """Empty where he may make a topic; else the words of the refusal."""
    settings = ClientSettings(credentials=Credentials(name, secret))
    try:
        with Admin(nameserver, settings=settings) as admin:
            admin.topics.create(f"of-{name}", queues=1)
    except BrokerRefused as refused:
        return str(refused)
    return ""


def test_a_user_is_allowed_denied_and_neither(chief, users_nameserver):
    assert "The user alice is created at every broker." in create(chief, "alice")
    assert "No policy has an entry for this user" in text_of(chief.get("/user", name="alice"))
    assert "no right Create" in refusal_of(users_nameserver, "alice")

    allowed = {"resource": "Topic:of-*", "decision": "Allow", "do_Create": "1", "do_Get": "1"}
    said = text_of(chief.post("/user/policy", name="alice", **allowed))
    assert "User alice has new permissions for Topic:of-*." in said
    assert "Topic:of-* Allow Get, Create anywhere Custom broker-a:0" in said
    assert refusal_of(users_nameserver, "alice") == ""

    denied = {**allowed, "resource": "Topic:of-alice", "decision": "Deny"}
    assert "Topic:of-alice Deny" in text_of(chief.post("/user/policy", name="alice", **denied))
    assert "no right Create" in refusal_of(users_nameserver, "alice")
    unsure = chief.post("/user/policy/delete", name="alice", resource="Topic:of-alice")
    assert unsure.status_code == 400
    assert "tick the box to confirm" in text_of(unsure)
    assert '<option value="Topic:of-alice" selected>' in unsure.text
    assert '<select name="resource" required><option value=""></option>' in unsure.text
    said = chief.post("/user/policy/delete", name="alice", resource="Topic:of-alice", sure="1")
    assert "is removed from the policy of user alice" in text_of(said)
    assert refusal_of(users_nameserver, "alice") == ""
    actions = text_of(chief.get("/audit"))
    assert "create user alice done" in actions
    assert "change policy alice: Topic:of-* Allow Get Create done" in actions
    assert "delete policy entry alice: Topic:of-alice done" in actions


@pytest.mark.parametrize("name", ["acl list", "acl show"])
def test_the_pages_show_what_the_commands_show(name, chief, users_nameserver, tmp_path):
    create(chief, "clerk-of-the-page")
    allowed = {"resource": "Topic:of-*", "decision": "Allow", "do_Create": "1", "do_Get": "1"}
    chief.post("/user/policy", name="clerk-of-the-page", **allowed)
    keys = tmp_path / "tools.yml"
    keys.write_text(f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n")
    keys.chmod(0o600)
    rows = printed(name, ELSEWHERE[name], users_nameserver, credentials=keys)
    check_page(name, ELSEWHERE[name], rows, chief)


def test_a_user_comes_changes_and_goes(chief, users_nameserver):
    """One that may all, so that what brokers say is about him and not about his rights."""
    create(chief, "albert", kind="Super")
    assert refusal_of(users_nameserver, "albert") == ""
    seen = user_seen(chief, "albert")
    fields = {"kind": "Super", "state": "disable", "password": "", "again": ""}
    said = text_of(chief.post("/user/change", name="albert", seen=seen, **fields))
    assert "The user albert is changed at every broker." in said
    assert "disable" in said
    assert "not that of a known user" in refusal_of(users_nameserver, "albert")
    again = chief.post("/user/change", name="albert", seen=seen, **fields)
    assert again.status_code == 400
    assert "was changed in the meantime" in text_of(again)
    fields |= {"state": "enable", "password": "another-secret", "again": "another-secret"}
    chief.post("/user/change", name="albert", seen=user_seen(chief, "albert"), **fields)
    assert "not that of a known user" in refusal_of(users_nameserver, "albert")
    assert refusal_of(users_nameserver, "albert", "another-secret") == ""

    wrong = chief.post("/user/delete", name="albert", sure="alber")
    assert wrong.status_code == 400
    assert "was not deleted: enter 'albert'" in text_of(wrong)
    assert "is deleted, with the policies" in text_of(
        chief.post("/user/delete", name="albert", sure="albert")
    )
    assert "not that of a known user" in refusal_of(
        users_nameserver, "albert", "another-secret"
    )
    actions = text_of(chief.get("/audit"))
    assert "change user albert done" in actions
    assert "delete user albert done" in actions


@pytest.mark.parametrize(
    ("path", "fields", "status", "sentence"),
    [
        ("/users/create", {"name": "", "password": "x", "again": "x"}, 400, "The user is missing"),
        ("/users/create", {"name": "bob"}, 400, "The password is missing"),
        ("/users/create", {"name": "bob", "password": "first", "again": "other"}, 400, "The passwords differ"),
        ("/users/create", {"name": "bob", "password": "x" * 257, "again": "x" * 257}, 400, "at most 256 are allowed"),
        ("/users/create", {"name": "root", "password": SECRET, "again": SECRET}, 400, "exists; change it"),
        ("/users/create", {"name": "bob", "password": SECRET, "again": SECRET, "kind": "King"}, 400, "not one of Normal, Super"),
        ("/user/change", {"name": "nobody", "seen": ""}, 404, "No broker has a user"),
        ("/user/change", {"name": "root", "seen": "old"}, 400, "was changed in the meantime"),
        ("/user/delete", {"name": "nobody", "sure": "nobody"}, 404, "No broker has a user"),
        ("/user/policy", {"name": "root", "resource": ""}, 400, "The resource is missing"),
        ("/user/policy", {"name": "root", "resource": "Topic:x"}, 400, "No action was chosen"),
        ("/user/policy", {"name": "root", "resource": "Planet:x", "do_Get": "1"}, 400, "it must be Topic:NAME"),
        ("/user/policy", {"name": "root", "resource": "Topic:x", "do_Get": "1", "sources": "mars"}, 400, "each must be an IP address"),
        ("/user/policy", {"name": "root", "resource": "Topic:x", "do_Get": "1", "decision": "Maybe"}, 400, "not one of Allow, Deny"),
        ("/user/policy", {"name": "nobody", "resource": "Topic:x", "do_Get": "1"}, 404, "No broker has a user"),
        ("/user/policy/delete", {"name": "root", "resource": "Topic:none", "sure": "1"}, 404, "has an entry for"),
    ],
)  # fmt: skip
def test_what_is_written_wrong_changes_nothing_and_is_said(
    chief, path, fields, status, sentence
):
    before = text_of(chief.get("/users"))
    said = chief.post(path, **fields)
    assert sentence in text_of(said)
    assert said.status_code == status
    assert "Traceback" not in said.text
    assert SECRET not in said.text
    assert text_of(chief.get("/users")) == before


def test_names_of_a_bad_peer_are_shown_and_never_run(chief):
    for name in (SCRIPT, RIGHT_TO_LEFT):
        said = chief.post("/users/create", name=name, password=SECRET, again=SECRET)
        assert SCRIPT not in said.text
        page = chief.get("/users").text
        assert SCRIPT not in page
        assert RIGHT_TO_LEFT not in page


@pytest.mark.parametrize("path", ["/users", "/users/new", "/user?name=root"])
def test_a_reader_of_the_dashboard_is_not_told(trusted, path):
    reader = Visitor(trusted).log_in(READER, READER_PASSWORD)
    said = reader.get(path)
    assert said.status_code == 403
    assert "are shown to admins" in text_of(said)


def test_a_user_of_the_cluster_sees_what_brokers_tell_him_and_changes_nothing(trusted):
    visitor = Visitor(trusted)
    fields = {"name": ROOT.access_key, "password": ROOT.secret_key}
    assert visitor.http.post("/login", data=fields).status_code == 303
    page = visitor.get("/users")
    assert "root Super enable" in text_of(page)
    assert "/users/new" not in page.text
    assert 'action="/user/' not in visitor.get("/user", name="root").text


def test_a_cluster_without_users_says_what_that_means(admin):
    said = text_of(admin.get("/users"))
    assert "No broker lists users." in said
    assert "Auth 2.0 is off" in said
    missing = admin.get("/user", name="anybody")
    assert missing.status_code == 502
    assert "Auth 2.0 is off" in text_of(missing)


def test_the_pages_are_well_and_leave_their_pictures(trusted, chief):
    create(chief, "dora")
    chief.post("/user/policy", name="dora", resource="Topic:orders*", do_Pub="1", do_Get="1")
    SCREENS.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for look, (scheme, width) in LOOKS.items():
            context = browser.new_context(
                viewport={"width": width, "height": 800},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            tab = Watched(context.new_page(), trusted.url)
            tab.log_in(ADMIN, trusted.password)
            for name, path in {
                "users": "/users",
                "user": "/user?name=dora",
                "user-new": "/users/new",
            }.items():
                tab.go(path)
                for details in tab.page.locator("details").all():
                    details.evaluate("each => each.open = true")
                assert overflow(tab.page) <= 0, f"{name} is wider than {width}"
                tab.page.screenshot(path=SCREENS / f"{name}-{look}.png", full_page=True)
            context.close()
            tab.is_well()
    assert "What browsers reported" not in text_of(chief.get("/audit"))


def test_dead_letters_that_a_user_may_not_read_are_unknown_and_the_others_are_shown(
    chief, trusted, users_nameserver
):
    with Admin(users_nameserver, settings=ClientSettings(credentials=ROOT)) as admin:
        for group in ("open", "secret"):
            admin.topics.create(f"%DLQ%{group}", queues=1)
    signed = ProducerSettings(credentials=ROOT, send_timeout_ms=30_000)
    with Producer(users_nameserver, settings=signed) as producer:
        for group in ("open", "secret"):
            producer.send(Message(f"%DLQ%{group}", b"x"))
    create(chief, "clerk")
    for resource, decision in {
        "Topic:*": "Allow",
        "Cluster:*": "Allow",
        "Topic:%DLQ%secret": "Deny",
    }.items():
        fields = {"resource": resource, "decision": decision, "do_Get": "1"}
        assert chief.post("/user/policy", name="clerk", **fields).status_code == 200
    page = Visitor(trusted).log_in("clerk", SECRET).get("/dead")
    assert page.status_code == 200, text_of(page)
    said = text_of(page)
    assert re.search(r" open 1 \d{4}-", said), said
    assert " secret unknown " in said
    assert "Incomplete: %DLQ%secret cannot be read: " in said


def test_a_group_that_a_user_may_not_read_is_unknown_and_the_others_are_shown(
    chief, trusted, users_nameserver
):
    with Admin(users_nameserver, settings=ClientSettings(credentials=ROOT)) as admin:
        for group in ("open-group", "secret-group"):
            admin.groups.create(GroupConfig(group))
    create(chief, "auditor")
    for resource, decision in {
        "Topic:*": "Allow",
        "Group:*": "Allow",
        "Cluster:*": "Allow",
        "Group:secret-group": "Deny",
    }.items():
        fields = {"resource": resource, "decision": decision, "do_Get": "1", "do_List": "1"}
        assert chief.post("/user/policy", name="auditor", **fields).status_code == 200
    page = Visitor(trusted).log_in("auditor", SECRET).get("/groups")
    assert page.status_code == 200, text_of(page)
    said = text_of(page)
    assert " open-group no members " in said
    assert " secret-group unknown unknown " in said
    assert "Incomplete: broker-a does not show the members of group 'secret-group': " in said


async def test_a_malformed_policy_is_said_and_all_others_are_shown(tmp_path):
    user = b'[{"username": "alice", "userType": "Normal", "userStatus": "enable"}]'
    policies = orjson.loads(policies_of("alice", "Get")) + orjson.loads(
        policies_of("bob", "Fly")
    )
    async with Scripted() as names, Scripted() as broker:
        script(names, one=broker)
        broker.scripts[RequestCode.AUTH_LIST_USER] = partial(answered, user)
        broker.scripts[RequestCode.AUTH_LIST_ACL] = partial(answered, orjson.dumps(policies))
        pages = await asyncio.to_thread(pages_of_users, tmp_path, names.address)
    for page in pages:
        assert page.status_code == 200
        assert "one:0: the policies of user 'bob' are malformed: " in text_of(page)
    assert "alice Normal enable 1 one:0" in text_of(pages[0])
    assert "Topic:orders Allow Get" in text_of(pages[1])


def pages_of_users(folder: Path, nameserver: str) -> list[httpx.Response]:
    with Served(folder, nameserver) as served:
        visitor = Visitor(served).log_in()
        return [visitor.get("/users"), visitor.get("/user", name="alice")]


async def change_user(nameserver: str, *, is_made: bool) -> None:
    """Make or delete the user "leaver" at all brokers, as the Super user."""
    async with AsyncAdmin(nameserver, settings=ClientSettings(credentials=ROOT)) as admin:
        if is_made:
            await admin.users.create("leaver", SECRET, is_super=True)
        else:
            await admin.users.delete("leaver")


@pytest.mark.parametrize("path", ["/brokers", "/jobs", "/topics"])
def test_a_session_of_the_clusters_user_ends_when_he_is_gone(users_nameserver, trusted, path):
    asyncio.run(change_user(users_nameserver, is_made=True))
    visitor = Visitor(trusted).log_in("leaver", SECRET)
    assert visitor.http.get(path).status_code == 200
    asyncio.run(change_user(users_nameserver, is_made=False))
    wait_until(
        lambda: visitor.http.get(path).headers.get("location", "").startswith("/login"),
        seconds=20,
        what="the end of the session",
    )
    assert visitor.http.get("/").status_code == 303
