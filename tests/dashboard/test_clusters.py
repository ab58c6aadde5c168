"""A dashboard of two clusters: each has its own pages, and no link, form or session of one leads to the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq import Admin, ClientSettings
from cometmq.dashboard import DashboardCluster, DashboardSettings
from cometmq.model.errors import SettingsError
from tests.dashboard.conftest import auth_cluster
from tests.dashboard.test_browser import PAGES, SCREENS, Watched, overflow
from tests.dashboard.web import ADMIN, Served, Visitor, hidden, text_of, wait_for
from tests.support.auth_users import ROOT
from tests.support.chromium import chromium

PLAIN, GUARDED = "/cluster/plain", "/cluster/guarded.eu"
# Addresses on a page that name no cluster; those of files are the same for all.
ASTRAY = re.compile(r'(?:href|action|hx-get)="(/(?!cluster/|static/)[^"]*)"')


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with auth_cluster(tmp_path_factory.mktemp("guarded"), nameserver_too=False) as address:
        yield address


@pytest.fixture(scope="module")
def two(
    nameserver: str, guarded: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A dashboard of the suite's cluster and of one with users; -n and the environment name neither."""
    folder = tmp_path_factory.mktemp("two")
    profiles = folder / "cometmq" / "profiles"
    profiles.mkdir(parents=True)
    keys = f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n"
    for name, text in {
        "plain": f"nameserver: {nameserver}\n",
        "guarded.eu": f"nameserver: {guarded}\n{keys}",
    }.items():
        (profiles / f"{name}.yaml").write_text(text)
        (profiles / f"{name}.yaml").chmod(0o600)
    env = {
        "XDG_CONFIG_HOME": str(folder),
        "COMETMQ_TLS": "true",
        "COMETMQ_ACCESS_KEY": "nobody",
        "COMETMQ_SECRET_KEY": "of-the-environment",
    }
    options = ("--cluster", "plain", "--cluster", "guarded.eu")
    with Served(folder, "127.0.0.1:1", *options, env=env) as made:
        yield made


@pytest.fixture(scope="module")
def admin(two: Served) -> Visitor:
    visitor = Visitor(two)
    given = {"name": ADMIN, "password": two.password}
    assert visitor.http.post(f"{PLAIN}/login", data=given).headers["location"] == f"{PLAIN}/"
    visitor.csrf = hidden(visitor.get(f"{PLAIN}/groups/new"))["csrf"]
    return visitor


def test_the_root_leads_to_the_first_cluster_and_its_login(two):
    stranger = Visitor(two)
    for path in ("/", "/topics", "/login", "/cluster/none/topics"):
        assert stranger.http.get(path).headers["location"] == f"{PLAIN}/"
    assert stranger.http.get(GUARDED).headers["location"] == f"{GUARDED}/"
    assert stranger.http.get(f"{PLAIN}/").headers["location"] == f"{PLAIN}/login"
    said = stranger.http.get(f"{GUARDED}/topics?all=1")
    assert said.headers["location"] == f"{GUARDED}/login?next=%2Fcluster%2Fguarded.eu%2Ftopics%3Fall%3D1"  # fmt: skip
    part = stranger.http.get(f"{GUARDED}/part/overview")
    assert part.headers["hx-redirect"].startswith(f"{GUARDED}/login")
    assert stranger.http.get("/healthz").status_code == 200
    assert stranger.http.post("/csp-report", content=b"x").status_code == 204
    assert stranger.http.post("/topics/create", data={"name": "x"}).status_code == 405


def test_each_cluster_has_its_own_pages_and_one_login_is_for_both(admin):
    plain = wait_for(admin, f"{PLAIN}/topics", "topic-000")
    assert "topic-000" not in wait_for(admin, f"{GUARDED}/topics", "There are no topics yet")
    assert "Page 1 of 5" in plain
    for prefix, other in ((PLAIN, GUARDED), (GUARDED, PLAIN)):
        page = admin.get(f"{prefix}/")
        wait_for(admin, f"{prefix}/brokers", "master")
        assert f'href="{other}/"' in page.text
        assert f'<a class="brand" href="{prefix}/">' in page.text


def test_no_address_on_a_page_is_that_of_another_cluster(admin, special):
    for name, path in {
        **PAGES,
        "member": "/users",
        "traces": f"/trace?id={special.traced}",
    }.items():
        said = admin.get(f"{PLAIN}{path}")
        assert ASTRAY.findall(said.text) == [], name
        assert GUARDED not in said.text.replace(f'href="{GUARDED}/"', ""), name
    for part in ("/part/overview", "/part/brokers", "/part/troubles", "/part/jobs"):
        assert ASTRAY.findall(admin.get(f"{GUARDED}{part}").text) == []


def test_a_form_changes_the_cluster_that_it_was_loaded_from(admin, nameserver, guarded):
    said = admin.post(f"{GUARDED}/topics/create", name="of-the-guarded", write="1", read="1")
    assert "The topic of-the-guarded is created." in text_of(said)
    assert said.url.path == f"{GUARDED}/topic"
    with Admin(guarded, settings=ClientSettings(credentials=ROOT)) as asked:
        assert "of-the-guarded" in asked.topics.list()
    with Admin(nameserver) as asked:
        assert "of-the-guarded" not in asked.topics.list()
    audit = text_of(admin.get(f"{PLAIN}/audit"))
    assert "create topic guarded.eu: of-the-guarded done" in audit


def test_a_user_of_one_cluster_is_a_stranger_in_the_other(two):
    given = {"name": ROOT.access_key, "password": ROOT.secret_key}
    visitor = Visitor(two)
    assert visitor.http.post(f"{PLAIN}/login", data=given).status_code == 403
    assert visitor.http.post(f"{GUARDED}/login", data=given).status_code == 303
    assert visitor.http.get(f"{GUARDED}/topics").status_code == 200
    for path in ("/topics", "/", "/users"):
        assert visitor.http.get(f"{PLAIN}{path}").status_code == 303
    assert visitor.http.get(f"{GUARDED}/users").status_code == 200


@pytest.mark.parametrize("width", [1280, 360])
def test_a_browser_switches(two, width):
    SCREENS.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        tab = Watched(browser.new_page(viewport={"width": width, "height": 800}), two.url)
        tab.go(f"{PLAIN}/login")
        tab.page.fill("[name=name]", ADMIN)
        tab.page.fill("[name=password]", two.password)
        tab.page.click("button.main")
        tab.page.wait_for_url(f"{two.url}{PLAIN}/")
        tab.page.wait_for_selector("main >> text=billing", timeout=30_000)
        tab.page.click(".clusters summary")
        assert overflow(tab.page) <= 0
        tab.page.screenshot(path=SCREENS / f"clusters-{width}.png")
        tab.page.click("text=guarded.eu")
        tab.page.wait_for_url(f"{two.url}{GUARDED}/")
        assert tab.page.title() == "Overview · guarded.eu · CometMQ"
        tab.page.wait_for_timeout(2500)  # Its parts have refreshed.
        assert tab.page.locator("main >> text=billing").count() == 0
        tab.is_well()


@pytest.mark.parametrize("names", [("a", "a"), ("",), ("a/b",), ("..",), ("x" * 65,)])
def test_names_that_no_address_can_have_are_refused(tmp_path: Path, names: tuple[str, ...]):
    clusters = tuple(DashboardCluster(each, "127.0.0.1:9876") for each in names)
    with pytest.raises(SettingsError, match="need different names"):
        DashboardSettings(data_dir=tmp_path, clusters=clusters)
