"""The pictures that the pages of docs/operate show: each page of a cluster that sells, taken by a browser.

They lie in build/screens/docs; `make pictures` puts them into the documentation.
"""

import base64
import contextlib
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page

from tests.dashboard.pictures import HEIGHT, HEIGHT_MAX, PICTURES, SIZE_MAX, TAKEN, WIDTH
from tests.dashboard.shop import Shop, shop
from tests.dashboard.test_browser import Watched, browser
from tests.dashboard.web import ADMIN, Served
from tests.dashboard.world import place as place_of
from tests.support.processes import wait_until

__all__ = ["browser"]


@pytest.fixture(scope="module")
def sold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shop, Served]]:
    """The shop, and a dashboard of it."""
    folder = tmp_path_factory.mktemp("shop")
    with shop(folder) as running, Served(folder / "dashboard", running.nameserver) as served:
        yield running, served


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_leaves_its_picture_for_the_documentation(browser, sold, name):
    running, served = sold
    place = "&".join(
        f"{key}={value}"
        for key, value in place_of(running.traced.queue, running.traced.queue_offset).items()
    )
    pictured = PICTURES[name]
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    tab = Watched(context.new_page(), served.url)
    tab.log_in(ADMIN, served.password)
    looked_for = pictured.path.format(id=running.traced.message_id, place=place)
    reload_until(tab, looked_for, pictured.shows)
    assert_tells_nothing(tab.page.inner_text("body"))
    picture = picture_of(tab.page)
    assert len(picture) <= SIZE_MAX, f"{name} has {len(picture)} bytes"
    TAKEN.mkdir(parents=True, exist_ok=True)
    (TAKEN / f"{name}.webp").write_bytes(picture)
    context.close()
    tab.is_well()


def reload_until(tab: Watched, path: str, shows: str) -> None:
    """Open a page again and again until it has what its picture is to show: records of traces come later."""

    def look() -> bool:
        tab.go(path)
        with contextlib.suppress(Error):
            tab.page.wait_for_selector(shows, timeout=2_000)
            return True
        return False

    wait_until(look, seconds=60, what=f"{shows} on {path}")


def assert_tells_nothing(text: str) -> None:
    """No name, path or address of the machine that it is taken on."""
    for told in (
        socket.gethostname(),
        str(Path.home()),
        str(Path.cwd()),
        tempfile.gettempdir(),
    ):
        assert told not in text
    addresses = set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text))
    assert addresses <= {"127.0.0.1"}


def picture_of(page: Page) -> bytes:
    """The head of a page as WebP, which only the browser's own protocol gives."""
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": WIDTH, "height": min(height, HEIGHT_MAX)})
    session = page.context.new_cdp_session(page)
    asked = {"format": "webp", "quality": 80}
    return base64.b64decode(session.send("Page.captureScreenshot", asked)["data"])
