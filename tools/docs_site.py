"""Makes a site of the pages that lie in this tree; mkdocs calls the functions whose names begin with `on_`.

Pages link as they lie, so that each can be read in the tree. On the site README.md is the front page, pages from
beside docs/ have a place of their own, and what is no page at all (a source file, a folder) is shown by its path. Pages
of the folders that grow (operate, design, format) are put into the navigation by themselves.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from cometmq.model.codes import RequestCode, ResponseCode

ROOT = Path(__file__).resolve().parents[1]
# Pages of the site that do not lie in docs/.
OUTSIDE = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "bench.md": "bench/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
CODES = "reference/codes.md"
# Folders whose pages are found, and where the navigation has them.
GROWING = {"operate": "Operate", "format": "Formats", "design": "Decisions"}

PLACES = {source: site for site, source in OUTSIDE.items()}
LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\]\[]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# Comments for the test that runs a page's blocks; no reader needs them.
COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """Complete the navigation with the pages of the folders that grow."""
    sections = {title: pages for entry in config.nav for title, pages in entry.items()}
    for folder, title in GROWING.items():
        pages = sections.setdefault(title, [])
        pages += sorted(
            path.relative_to(ROOT / "docs").as_posix()
            for path in (ROOT / "docs" / folder).glob("*.md")
        )
    reference = [*sections.pop("Reference", []), CODES, {"Formats": sections.pop("Formats")}]
    internals = [
        "the-way-of-a-message.md", "contributing.md", "security.md", "changelog.md",
        {"Decisions": sections.pop("Decisions")},
    ]  # fmt: skip
    config.nav = [
        *({title: pages} for title, pages in sections.items()),
        {"Reference": reference},
        {"Internals": internals},
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie elsewhere, and the table of codes."""
    for site, source in OUTSIDE.items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, CODES, content=codes_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Lead links to where the site has their targets; take out what only tests read."""
    del config
    source = OUTSIDE.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    places = {file.src_uri for file in files.documentation_pages()}
    text = COMMENT.sub("", markdown)
    parts, end = [], 0
    for code in FENCED.finditer(text):
        parts += [_relinked(text[end : code.start()], source, page, places), code[0]]
        end = code.end()
    parts.append(_relinked(text[end:], source, page, places))
    return "".join(parts)


def _relinked(text: str, source: str, page: Page, places: set[str]) -> str:
    here = posixpath.dirname(page.file.src_uri)

    def relinked(link: re.Match[str]) -> str:
        target, hash_sign, anchor = link["target"].partition("#")
        if ":" in target or not target:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        site = PLACES.get(path, path.removeprefix("docs/"))
        if site in places:
            there = posixpath.relpath(site, here or ".")
            return f"[{link['text']}]({there}{hash_sign}{anchor})"
        if not (ROOT / path).exists():
            raise SystemExit(f"{source}: {link[0]} leads to {path}, which is not there")
        return (
            link["text"]
            if link["text"].strip("`").startswith(path)
            else f"{link['text']} (`{path}`)"
        )

    return LINK.sub(relinked, text)


def codes_page() -> str:
    """Every code of the protocol by its number."""

    def table(codes: type[RequestCode] | type[ResponseCode]) -> str:
        rows = sorted((int(code), code.name) for code in codes)
        lines = [f"| {number} | `{name}` |" for number, name in rows]
        return "\n".join(["| code | name |", "| ---: | --- |", *lines])

    return f"""# Codes

What a frame asks for and what an answer says, by the numbers of RocketMQ's `RequestCode` and `ResponseCode`.
Who may ask for what stands in [Requests](../operate/requests.md).

## Answers

{table(ResponseCode)}

## Requests

{table(RequestCode)}
"""
