"""Writes the site's pages to build/pages and its configuration to build, from which `zensical build` makes the site.

Pages of the tree link to each other by their places in the tree, so that each can be read there. On the site README.md
is the front page, pages from beside docs/ have a place of their own, and what is no page (a source file, a folder) is
shown by its path. The pages of folders that grow (operate, design, format), of public names and of codes are put into the
navigation here.
"""

import ast
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from cometmq.model.codes import RequestCode, ResponseCode

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PAGES = BUILD / "pages"
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
# Modules with public names; their page has the names that have none of their own.
MODULES = {
    "cometmq": "Messages, settings, filters",
    "cometmq.admin": "What administration takes and returns",
    "cometmq.connect": "Parts for connectors",
    "cometmq.errors": "Errors",
    "cometmq.embedded": "Brokers in your process",
    "cometmq.spark": "Spark",
    "cometmq.offline": "Stores without a broker",
}
# Names on one of these pages; more would make it too long.
NAMES_MAX = 32
# Folders whose pages are found, and where the navigation has them.
GROWING = {"operate": "Operate", "format": "Formats", "design": "Decisions"}

EXAMPLES = {
    f"examples/{path.stem}.md": f"examples/{path.name}"
    for path in sorted((ROOT / "examples").glob("[a-z]*.py"))
}
PLACES = {source: site for site, source in (OUTSIDE | EXAMPLES).items()}
LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\]\[]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# Comments for the test that runs a page's blocks; no reader needs them.
COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)


def main() -> None:
    """Write all pages and mkdocs.yml anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    sources = dict(_sources())
    reference = dict(_reference())
    made = {CODES: codes_page(), **reference}
    made |= {site: _example(path) for site, path in EXAMPLES.items()}
    for site, source in sources.items():
        path = ROOT / source
        if path.suffix == ".md":
            made[site] = _relinked(path.read_text(), source, site, {*sources, *made})
        else:
            _place(site).write_bytes(path.read_bytes())
    for site, text in made.items():
        _place(site).write_text(text)
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    config["nav"] = _navigation(config["nav"], list(reference))
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False))


def _sources() -> Iterator[tuple[str, str]]:
    """Yield each file's place on the site and in the tree."""
    yield from OUTSIDE.items()
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file():
            yield path.relative_to(ROOT / "docs").as_posix(), path.relative_to(ROOT).as_posix()


def _example(source: str) -> str:
    """Return the page of a program: its docstring, and the code that follows it."""
    code = (ROOT / source).read_text()
    parsed = ast.parse(code)
    program = "".join(code.splitlines(keepends=True)[parsed.body[0].end_lineno :]).lstrip()
    text = ast.get_docstring(parsed) or ""
    return f"# {Path(source).name}\n\n{text}\n\n```python\n{program}```\n"


def _place(site: str) -> Path:
    place = PAGES / site
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _reference() -> Iterator[tuple[str, str]]:
    """Yield a page for each class that exists twice, and pages for the other names of each module."""
    others = {}
    for module, title in MODULES.items():
        names = sorted(import_module(module).__all__, key=str.casefold)
        for name in [each for each in names if f"Async{each}" in names]:
            twins = [name, f"Async{name}"]
            names = [each for each in names if each not in twins]
            text = f"`{name}` is for threads, `Async{name}` for asyncio. Both have the same methods."
            yield f"reference/{_kebab(name)}.md", _names_page(name, text, module, twins)
        pages = max(1, -(-len(names) // NAMES_MAX))
        size = max(1, -(-len(names) // pages))
        for place in range(0, len(names), size):
            part = names[place : place + size]
            heading = f"{title}: {part[0]} to {part[-1]}" if pages > 1 else title
            text = f"Names of the module `{module}`."
            page = _names_page(heading, text, module, part)
            others[f"reference/{module}-{place // size + 1}.md"] = page
    yield from others.items()


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _names_page(title: str, text: str, module: str, names: list[str]) -> str:
    """Return a page on which mkdocstrings describes the names of a module."""
    return f"# {title}\n\n{text}\n\n" + "".join(f"::: {module}.{name}\n\n" for name in names)


def _navigation(given: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Return mkdocs.yml's navigation with the pages of the folders that grow, and with `names`, those of public names."""
    sections = {title: pages for entry in given for title, pages in entry.items()}
    for folder, title in GROWING.items():
        pages = sections.setdefault(title, [])
        pages += sorted(
            path.relative_to(ROOT / "docs").as_posix()
            for path in (ROOT / "docs" / folder).glob("*.md")
        )
    sections["Client"].append({"Examples": list(EXAMPLES)})
    reference = [*names, CODES, {"Formats": sections.pop("Formats")}]
    internals = [
        "the-way-of-a-message.md", "contributing.md", "security.md", "changelog.md",
        {"Decisions": sections.pop("Decisions")},
    ]  # fmt: skip
    return [
        *({title: pages} for title, pages in sections.items()),
        {"Reference": reference},
        {"Internals": internals},
    ]


def _relinked(markdown: str, source: str, site: str, places: set[str]) -> str:
    """Lead links to where the site has their targets; take out what only tests read."""
    here = posixpath.dirname(site)

    def relinked(link: re.Match[str]) -> str:
        target, hash_sign, anchor = link["target"].partition("#")
        if ":" in target or not target:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = PLACES.get(path, path.removeprefix("docs/"))
        if there in places:
            there = posixpath.relpath(there, here or ".")
            return f"[{link['text']}]({there}{hash_sign}{anchor})"
        if not (ROOT / path).exists():
            sys.exit(f"{source}: {link[0]} leads to {path}, which does not exist")
        if link["text"].strip("`").startswith(path):
            return link["text"]
        return f"{link['text']} (`{path}`)"

    text = COMMENT.sub("", markdown)
    parts, end = [], 0
    for code in FENCED.finditer(text):
        parts += [LINK.sub(relinked, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(relinked, text[end:])])


def codes_page() -> str:
    """Return the page with every code of the protocol by its number."""

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


if __name__ == "__main__":
    main()
