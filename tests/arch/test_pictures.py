"""Pictures on pages: each is there, small, of a page of the dashboard, and taken by the suite; none lies there that no page shows."""

import re
from urllib.parse import urlsplit

import pytest

from cometmq.dashboard.pages import PAGES
from tests.dashboard.pictures import PICTURES, ROOT, SHOWN, SIZE_MAX

KINDS = (".png", ".webp", ".jpg", ".jpeg", ".gif", ".svg")
_PICTURE = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<path>[^)\s]+)\)")
_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_NAMED = [
    (page, match["words"], match["path"])
    for page in _PAGES
    for match in _PICTURE.finditer(page.read_text())
    if ":" not in match["path"]
]


@pytest.mark.parametrize(("page", "words", "path"), _NAMED, ids=[each[2] for each in _NAMED])
def test_a_picture_of_a_page_is_there_and_of_a_page_that_exists(page, words, path):
    file = (page.parent / path).resolve()
    assert file.is_file()
    assert 0 < file.stat().st_size <= SIZE_MAX
    assert words, f"{path} has no words for who sees no picture"
    if file.parent == SHOWN:
        looked_at = {each.path for each in PAGES if each.does is None and not each.is_part}
        assert urlsplit(PICTURES[file.stem].path).path in looked_at
        head = file.read_bytes()[:12]
        assert (head[:4], head[8:]) == (b"RIFF", b"WEBP")


def test_every_picture_that_lies_there_is_shown_and_taken_by_the_suite():
    shown = {(page.parent / path).resolve() for page, _, path in _NAMED}
    lying = {
        path.resolve() for path in (ROOT / "docs").rglob("*") if path.suffix.lower() in KINDS
    }
    assert lying == shown
    assert {path.stem for path in SHOWN.iterdir()} == set(PICTURES)
