"""Every table is sorted by a click on a heading: without a load of the page, by values, by keyboard, and after the page's own refresh."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Request

from cometmq import Admin
from cometmq.admin import GroupConfig
from tests.dashboard.test_browser import PAGES, Watched
from tests.dashboard.web import ADMIN, READER, READER_PASSWORD, Served
from tests.dashboard.world import GROUP, HOSTILE, ORDERS, ORDERS_COUNT, place_of
from tests.support.chromium import chromium

# What the cells of a column hold: the value that the server gives, or the text.
VALUES = """(table, column) => Array.from(table.tBodies[0].rows, row => {
  let end = 0;
  const cell = Array.from(row.cells).find(each => (end += each.colSpan) > column);
  return cell.dataset.sort ?? cell.textContent.trim();
})"""
NOTHING = "\N{EN DASH}"
IN_ORDER = """([one, other]) => new Intl.Collator(undefined, {numeric: true}).compare(one, other) <= 0"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def tab(browser: Browser, served: Served) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    watched = Watched(context.new_page(), served.url)
    watched.log_in(READER, READER_PASSWORD)
    yield watched
    context.close()
    watched.is_well()


def values(table: Locator, column: int) -> list[str]:
    found: list[str] = table.evaluate(f"(table, column) => ({VALUES})(table, column)", column)
    return found


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_order(page: Page, found: list[str], *, falls: bool) -> None:
    """Numbers by value and before texts, those without a value at the end."""
    known = [each for each in found if each not in ("", NOTHING)]
    assert found[: len(known)] == known, "those without a value are not at the end"
    if falls:
        known.reverse()
    numbers = [float(each) for each in known if is_number(each)]
    assert numbers == sorted(numbers)
    assert all(map(is_number, known[: len(numbers)]))
    words = known[len(numbers) :]
    for pair in pairwise(words):
        assert page.evaluate(IN_ORDER, list(pair)), pair


def check_column(page: Page, table: Locator, heading: Locator, column: int) -> None:
    """Click on a heading twice."""
    for _ in range(2):
        heading.locator("button.sort").click()
        said = heading.get_attribute("aria-sort")
        assert said in ("ascending", "descending")
        assert table.locator("th[aria-sort]").count() == 1
        check_order(page, values(table, column), falls=said == "descending")


def keep_url(urls: list[str], request: Request) -> None:
    if "/static/" not in request.url:  # The icon of the page may come late.
        urls.append(request.url)


def test_every_column_of_every_table_sorts_both_ways_without_a_request(
    browser, served, nameserver, special
):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = Watched(context.new_page(), served.url)
    tab.log_in(ADMIN, served.password)
    place = "&".join(f"{k}={v}" for k, v in place_of(nameserver, "script").items())
    pages = {**PAGES, "message": f"/message?{place}", "trace": f"/trace?id={special.traced}"}
    tables, clicked = 0, 0
    for name, path in pages.items():
        tab.go(path)
        page = tab.page
        # A part that refreshes itself would bring another table in the middle of the test.
        page.evaluate(
            "document.body.addEventListener('htmx:beforeRequest', event => event.preventDefault())"
        )
        asked: list[str] = []
        keep = partial(keep_url, asked)
        page.on("request", keep)
        for table in page.locator("main table:not(.u-legend)").all():
            headings = table.locator("thead th")
            assert headings.count() or name == "message", f"{name}: a table without headings"
            tables += 1
            for column, heading in enumerate(headings.all()):
                if heading.get_attribute("data-unsorted") is not None:
                    assert heading.locator("button").count() == 0
                    continue
                if heading.locator("a").count():
                    assert name in ("topics", "groups"), (
                        "only a list of several pages asks the server"
                    )
                    continue
                check_column(page, table, heading, column)
                clicked += 1
        page.remove_listener("request", keep)
        assert asked == [], name
    context.close()
    tab.is_well()
    assert tables > 20
    assert clicked > 100


def test_a_size_is_sorted_by_its_bytes_and_not_by_what_is_shown(tab):
    tab.go(f"/messages?by=time&topic={HOSTILE}")
    button = tab.page.get_by_role("button", name="Size", exact=True)
    for first, last in (("3.8 MiB", "10 B"), ("10 B", "3.8 MiB")):
        button.click()
        shown = tab.page.locator("main tbody td:nth-child(5)").all_inner_texts()
        assert (shown[0], shown[-1]) == (first, last)
        assert "48.8 KiB" in shown


def test_the_keyboard_sorts_and_the_heading_says_how(tab):
    tab.go("/replicas")
    button = tab.page.get_by_role("button", name="Broker", exact=True)
    button.focus()
    for said in ("ascending", "descending", "ascending"):
        tab.page.keyboard.press("Enter")
        heading = tab.page.get_by_role("columnheader", name="Broker", exact=True)
        assert heading.get_attribute("aria-sort") == said
        assert button.evaluate("each => each === document.activeElement")


def test_the_order_and_the_focus_outlive_the_pages_own_refresh(tab, nameserver, special):
    with Admin(nameserver) as admin:
        admin.groups.create(GroupConfig("a-group-behind"))
        for queue in admin.topics.offsets(ORDERS):
            admin.offsets.set("a-group-behind", {queue: 1})
        try:
            tab.go("/")
            tab.page.wait_for_selector("main >> text=a-group-behind", timeout=30_000)
            table = tab.page.locator("section", has_text="Groups furthest behind").locator(
                "table"
            )
            heading = table.locator("th", has_text="Group")
            heading.locator("button").click()
            assert heading.get_attribute("aria-sort") == "ascending"
            for _ in range(2):
                tab.page.evaluate("document.querySelector('#overview').dataset.old = ''")
                tab.page.wait_for_selector("#overview:not([data-old])", timeout=20_000)
                assert heading.get_attribute("aria-sort") == "ascending"
                names = table.locator("tbody td:first-child").all_inner_texts()
                assert names == sorted(names)
                assert {"a-group-behind", GROUP} <= set(names)
                assert heading.locator("button").evaluate(
                    "each => each === document.activeElement"
                )
        finally:
            admin.groups.delete("a-group-behind")


def test_a_list_of_several_pages_is_sorted_as_a_whole_and_not_loaded_anew(tab):
    tab.go("/topics")
    tab.page.evaluate("window.isSamePage = true")
    link = tab.page.locator("#list thead").get_by_role("link", name="Messages", exact=True)
    link.focus()
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/topics?sort=messages")
    first = tab.page.locator("#list tbody tr:first-child")
    assert first.inner_text().split()[:2] == [ORDERS, f"{ORDERS_COUNT:,}"]
    heading = tab.page.locator("#list th", has_text="Messages")
    assert heading.get_attribute("aria-sort") == "descending"
    assert tab.page.evaluate("window.isSamePage")
    assert link.evaluate("each => each === document.activeElement")
    # The other columns are those of this page, as in every list.
    tab.page.get_by_role("button", name="Kind", exact=True).click()
    assert tab.page.locator("#list th[aria-sort]").inner_text() == "Kind"
    link.click()
    tab.page.wait_for_selector("#list th[aria-sort=descending] >> text=Messages")
    assert first.inner_text().split()[0] == ORDERS


def test_a_list_that_cannot_be_sorted_without_a_login_leads_to_it(tab, served):
    tab.go("/topics")
    csrf = tab.page.get_attribute("[name=csrf]", "value")
    tab.page.evaluate("document.querySelector('#troubles').remove()")
    tab.page.request.post(
        f"{served.url}/logout", form={"csrf": csrf}, headers={"origin": served.url}
    )
    tab.page.locator("#list thead").get_by_role("link", name="Messages", exact=True).click()
    tab.page.wait_for_url("**/login?next=**", timeout=15_000)


def test_a_sorted_selection_stays_selected(browser, served, special):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = Watched(context.new_page(), served.url)
    tab.log_in(ADMIN, served.password)
    tab.go("/dead/group?name=dying")
    box = tab.page.locator("main tbody input[type=checkbox]").nth(1)
    chosen: Any = box.get_attribute("value")
    box.check()
    for _ in range(2):
        tab.page.get_by_role("button", name="Body", exact=True).click()
        assert tab.page.locator("main tbody input:checked").get_attribute("value") == chosen
    context.close()
    tab.is_well()
