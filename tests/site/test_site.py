"""What only a browser can show of the site that `make docs` builds: no code is cut off, no page is endless, nothing is fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request

from tests.support.chromium import chromium

SITE = Path(__file__).parents[2] / "build" / "site"
WIDTH, HEIGHT_MAX = 1280, 20_000  # pixels
# The texts of what is wider or higher than the place that it has.
CUT_OFF = """[...document.querySelectorAll("pre, pre > code")]
    .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.innerText)"""
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class Seen:
    """A page of the site as Chromium shows it."""

    name: str
    height: int
    wider: int
    cut_off: list[str]
    elsewhere: list[str]


def look_at(tab: Page, path: Path) -> Seen:
    """Open a page of the site."""
    elsewhere: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            elsewhere.append(request.url)

    tab.on("request", note)
    tab.goto(path.as_uri())
    height = tab.evaluate("document.documentElement.scrollHeight")
    seen = Seen(
        path.relative_to(SITE).as_posix(),
        height,
        tab.evaluate(WIDER),
        tab.evaluate(CUT_OFF),
        elsewhere,
    )
    tab.remove_listener("request", note)
    return seen


@pytest.fixture(scope="module")
def pages() -> Iterator[list[Seen]]:
    """All pages.

    Raises:
        RuntimeError: the site is not built; the suite fails.
    """
    paths = sorted(SITE.rglob("*.html"))
    if not paths:
        raise RuntimeError("there is no site: make docs")
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": WIDTH, "height": 900})
        yield [look_at(tab, each) for each in paths]


def test_the_site_has_the_pages_of_the_tree(pages):
    names = {each.name for each in pages}
    assert {"index.html", "architecture.html", "client.html", "reference/codes.html"} <= names
    assert len(names) > 100


def test_no_code_is_cut_off(pages):
    assert {each.name: each.cut_off for each in pages if each.cut_off} == {}


def test_no_page_is_wider_than_its_window(pages):
    assert {each.name: each.wider for each in pages if each.wider > 0} == {}


def test_no_page_is_endless(pages):
    assert {each.name: each.height for each in pages if each.height > HEIGHT_MAX} == {}


def test_nothing_is_fetched_from_elsewhere(pages):
    assert {each.name: each.elsewhere for each in pages if each.elsewhere} == {}
