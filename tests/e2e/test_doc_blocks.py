"""The code on the pages runs: each block of those pages that need no Spark (tests/spark has the others)."""

from pathlib import Path

import pytest

from cometmq.embedded import Embedded
from tests.support.pages import PAGES, ROOT, Reading, blocks, counted, pages

THOSE = pages(with_spark=False)


@pytest.mark.parametrize("page", THOSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs(page: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Embedded() as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.nameserver)
        Reading(cluster.nameserver, tmp_path).run(page)


def test_what_is_not_run_is_counted_with_its_reason(capsys):
    with capsys.disabled():
        print(f"\n{counted(THOSE)}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "```python\nfound = 1\n```\n\n```python\nassert 1 == 2\n```\n",
            r":6: AssertionError",
        ),
        (  # Whoever copies the second block alone has no `found`.
            "```python\nfound = 1\n```\n\n```python\nassert found == 1\n```\n",
            r":6: .*name 'found' is not defined",
        ),
        ("```python\nnowhere\n```\n", "name 'nowhere' is not defined"),
        ("```python\n1  # until Ctrl-C\n```\n", "it ended before Ctrl-C"),
        ("```sh\ntrue\nfalse\n```\n", "false: status 1"),
        ("```console\n$ false\n```\n", "false: status 1"),
        ("<!-- check:\nfound = 5\n-->\n", "a check does nothing but assert"),
        ("```console\n$ echo 12 apples\n13 pears\n```\n", "the page shows.*13 pears"),
    ],
)
def test_a_block_that_does_not_do_as_the_page_says_fails(text: str, says: str, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=says):
        Reading("127.0.0.1:1", tmp_path).run(page)


def test_a_block_with_a_title_is_a_file_and_nothing_is_set_up_unseen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('```ini title="a.conf"\nkey=5\n```\n```sh\ngrep key=5 a.conf\n```\n')
    Reading("127.0.0.1:1", tmp_path).run(page)
    assert [page for page in PAGES if "<!-- before:" in page.read_text()] == []
    assert [page for page in PAGES if "|| true" in page.read_text()] == []


def test_a_block_with_a_reason_is_not_run_and_counted(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run in CI: it would end the world. -->\n\n```sh\nfalse\n```\n"
        "```console\n$ echo 12 apples\n13 apples\n```\n```hex\n00\n```\n"
        "```python\nfound = 5\n```\n<!-- check:\nassert found == 5\n-->\n"
    )
    Reading("127.0.0.1:1", tmp_path).run(page)
    assert [block.language for block in blocks(page)] == [
        "sh", "console", "python", "check",
    ]  # fmt: skip
    assert counted([page]).splitlines()[0] == "docs: 2 blocks run, 1 not"
    assert counted([page]).endswith("page.md:4: it would end the world.")
