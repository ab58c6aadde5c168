"""What only a browser can show: that nothing is blocked, nothing runs, nothing is fetched from elsewhere, and all of it by keyboard and on a phone.

Each page is left as a picture in build/screens; docs/operate/dashboard.md names them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request

from cometmq import Message, Producer
from tests.dashboard.web import ADMIN, READER, READER_PASSWORD, Served, Visitor, text_of
from tests.dashboard.world import BODIES, GROUP, HOSTILE, ORDERS, SMALL, place_of
from tests.support.chromium import chromium
from tests.support.processes import wait_until

# Of no other test: what is sent to it while a test looks changes no count.
LIVE = "topic-150"
SCREENS = Path(__file__).parents[2] / "build" / "screens"
PAGES = {
    "overview": "/",
    "brokers": "/brokers",
    "broker": "/broker?name=broker-a&id=0&find=flush",
    "key-values": "/kv?namespace=shown",
    "replication": "/replicas",
    "topics": "/topics",
    "topic": f"/topic?name={ORDERS}",
    "topic-new": "/topics/new",
    "groups": "/groups",
    "group": f"/group?name={GROUP}",
    "group-new": "/groups/new",
    "producers": "/producers",
    "reset": f"/group/preview?name={GROUP}&topic={ORDERS}&to=earliest",
    "messages": f"/messages?by=time&topic={ORDERS}",
    "hostile": f"/messages?by=time&topic={HOSTILE}",
    "key": f"/messages?by=key&topic={ORDERS}&key=o-7",
    "tail": f"/tail?topic={SMALL}",
    "dead": "/dead",
    "dead-letters": "/dead/group?name=dying",
    "dead-stats": "/dead/stats?name=dying",
    "waiting": "/waiting?kind=time",
    "jobs": "/jobs",
    "doctor": "/doctor",
    "audit": "/audit",
    "problem": "/topic?name=never-made",
}
LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "phone": ("light", 360)}


@dataclass
class Watched:
    """A tab, and what it should not have done."""

    page: Page
    base: str
    said: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        # That a page is 404 because the test asked for one that is not there is no fault.
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            self.said.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def go(self, path: str) -> None:
        self.page.goto(self.base + path)

    def log_in(self, name: str, password: str) -> None:
        self.go("/login")
        self.page.fill("[name=name]", name)
        self.page.fill("[name=password]", password)
        self.page.click("button.main")
        self.page.wait_for_url(self.base + "/")

    def is_well(self) -> None:
        assert self.said == []
        assert self.elsewhere == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def tab(browser: Browser, served: Served) -> Iterator[Watched]:
    """A fresh browser with one tab."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    watched = Watched(context.new_page(), served.url)
    yield watched
    context.close()
    watched.is_well()


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    wide: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return wide


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_well_and_leaves_its_picture(browser, served, nameserver, special, look):
    scheme, width = LOOKS[look]
    SCREENS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = Watched(context.new_page(), served.url)
    tab.go("/login")
    tab.page.screenshot(path=SCREENS / f"login-{look}.png")
    tab.log_in(ADMIN, served.password)
    place = "&".join(f"{k}={v}" for k, v in place_of(nameserver, "script").items())
    for name, path in {
        **PAGES,
        "message": f"/message?{place}",
        "trace": f"/trace?id={special.traced}",
    }.items():
        tab.go(path)
        assert overflow(tab.page) <= 0, f"{name} is wider than {width}"
        assert tab.page.locator("main").inner_text().strip()
        assert tab.page.title().endswith("CometMQ")
        for details in tab.page.locator("details").all():
            details.evaluate("each => each.open = true")
        assert overflow(tab.page) <= 0, f"{name} is wider than {width} when all is open"
        tab.page.screenshot(path=SCREENS / f"{name}-{look}.png", full_page=True)
    context.close()
    tab.is_well()
    admin = Visitor(served).log_in()
    assert "What browsers reported" not in text_of(admin.get("/audit"))


def test_a_report_of_a_browser_would_be_seen(browser, served):
    """The check above can fail: a script that is put into a page is blocked, and reported."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{served.url}/login")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))"
    )
    assert page.evaluate("window.ran") is None
    admin = Visitor(served).log_in()
    wait_until(
        lambda: "What browsers reported" in text_of(admin.get("/audit")),
        seconds=10,
        what="a report",
    )
    context.close()


@pytest.mark.parametrize("key", BODIES)
def test_no_body_runs_or_fetches_anything(tab, served, nameserver, key):
    tab.log_in(READER, READER_PASSWORD)
    place = "&".join(f"{k}={v}" for k, v in place_of(nameserver, key).items())
    for kind in ("text", "json", "hex"):
        tab.go(f"/message?{place}&as={kind}")
        assert tab.page.title() == "Message · CometMQ"
        assert tab.page.locator("main script, main img, main b, main i").count() == 0


def test_the_keyboard_is_enough(tab, served):
    """Log in, skip to the page, make a topic, find it, and log out."""
    page, press = tab.page, tab.page.keyboard.press
    tab.go("/login")
    page.keyboard.type(ADMIN)
    press("Tab")
    page.keyboard.type(served.password)
    press("Enter")
    page.wait_for_url(served.url + "/")
    press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    walk_to(page, "Topics")
    press("Enter")
    page.wait_for_url("**/topics")
    press("/")
    page.keyboard.type("by-keyboard")
    press("Enter")
    page.wait_for_url("**find=by-keyboard**")
    walk_to(page, "New topic")
    press("Enter")
    page.wait_for_url("**/topics/new")
    walk_to(page, "name")
    page.keyboard.type("by-keyboard")
    press("Enter")
    page.wait_for_url("**/topic?name=by-keyboard")
    assert "The topic by-keyboard is created." in page.inner_text("main")
    walk_to(page, "Delete this topic")
    press("Enter")
    walk_to(page, "sure")
    page.keyboard.type("by-keyboard")
    press("Enter")
    page.wait_for_url("**/topics")
    assert "is deleted" in page.inner_text("main")
    walk_to(page, "Log out")
    press("Enter")
    page.wait_for_url("**/login?out=1")


def walk_to(page: Page, word: str) -> None:
    """Press Tab until what has the focus says that, or has that name; it must show that it has it."""
    for _ in range(80):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "[(document.activeElement.innerText || '').trim(), document.activeElement.name || '',"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        if word in at[:2]:
            assert at[2] != "none", f"{word} does not show that it has the focus"
            return
    raise AssertionError(f"Tab does not come to {word!r}")


def test_a_reader_sees_no_form_that_changes_anything(tab, special):
    tab.log_in(READER, READER_PASSWORD)
    for path in PAGES.values():
        tab.go(path)
        forms = tab.page.eval_on_selector_all(
            "form[method=post]", "all => all.map(each => each.getAttribute('action'))"
        )
        assert forms == ["/logout"], path


def test_live_parts_live(tab, served, nameserver):
    tab.log_in(READER, READER_PASSWORD)
    tab.go(f"/tail?topic={LIVE}")
    with Producer(nameserver) as producer:
        producer.send(Message(LIVE, b"<b>came</b> live", tag="now"))
        tab.page.wait_for_selector("#tail li >> text=<b>came</b> live")
        tab.page.check("#pause")
        tab.page.wait_for_timeout(1200)
        producer.send(Message(LIVE, b"while it is paused"))
        tab.page.wait_for_timeout(1500)
        assert tab.page.locator("#tail li").count() == 1
        tab.page.uncheck("#pause")
        tab.page.wait_for_selector("#tail li >> text=while it is paused")
        tab.go("/")
        tab.page.wait_for_selector(".chart canvas")

        def rate() -> float:
            producer.send_many(Message(LIVE, b"many") for _ in range(20))
            return float(tab.page.inner_text(".tiles dd").split()[0].replace(",", ""))

        wait_until(lambda: rate() > 10, seconds=15, what="the rate of what comes")
        tab.page.wait_for_selector(".chart canvas")
        assert tab.page.locator(".chart canvas").count() <= 1


def test_the_theme_is_kept(tab):
    tab.log_in(READER, READER_PASSWORD)
    light = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.page.click("#theme")
    dark = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    tab.go("/topics")
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_a_logout_elsewhere_leads_an_open_page_to_the_login(tab, served):
    tab.log_in(READER, READER_PASSWORD)
    csrf = tab.page.get_attribute("[name=csrf]", "value")
    tab.page.request.post(
        f"{served.url}/logout", form={"csrf": csrf}, headers={"origin": served.url}
    )
    tab.page.wait_for_url("**/login**", timeout=15_000)


def test_a_dashboard_that_ends_is_said_on_the_page(browser, nameserver, tmp_path):
    with Served(tmp_path, nameserver) as served:
        page = browser.new_context().new_page()
        tab = Watched(page, served.url)
        tab.log_in(ADMIN, served.password)
        served.program.kill()
        page.wait_for_selector("#unreachable >> text=has not answered since", timeout=15_000)
        page.context.close()
