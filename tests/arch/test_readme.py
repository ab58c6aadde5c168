"""README and the pages beside it can be followed: links, commands and code in them work."""

import ast
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cometmq.cli.__main__ import app
from cometmq.embedded import Embedded

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
BLOCK = re.compile(
    r"^```(?P<language>\w+)(?: title=\"[^\"]+\")?\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE
)
QUOTED_FILE = re.compile(r"`(?P<path>[\w/.-]+\.(?:py|pyx|md|toml|conf))`")
PACKAGES = sorted(path.name for path in (ROOT / "src" / "cometmq").iterdir() if path.is_dir())
# `broker/parts`, and the modules of the drawing: a file or a folder below src/cometmq.
MODULE = re.compile(rf"(?<![\w/.(])(?P<path>(?:{'|'.join(PACKAGES)})(?:/\w+)+)(?![\w/.-])")


@cache
def sources() -> tuple[str, ...]:
    """Every file of the project that Python or Cython reads."""
    folders = ("src", "tests", "examples", "bench", "tools")
    return tuple(
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*.py*")
        if path.suffix in (".py", ".pyx")
    )


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    found = BLOCK.finditer(page.read_text())
    return [match["code"] for match in found if match["language"] == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = {match["target"] for match in LINK.finditer(page.read_text())}
    local = {target for target in targets if "://" not in target}
    assert {target for target in local if not (page.parent / target).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    # `client/producer/sender.py` is below src/cometmq, `Makefile` and `docs/...` below the root; beside others a page may leave
    # the first folders out.
    named = {match["path"] for match in QUOTED_FILE.finditer(page.read_text())}
    assert {
        path
        for path in named
        if path.endswith((".py", ".pyx", ".md", ".toml")) and "/" in path
        if not any(f"/{each}".endswith(f"/{path}") for each in sources())
        if not (ROOT / path).exists()
    } == set()


def test_modules_that_the_architecture_names_exist() -> None:
    package = ROOT / "src" / "cometmq"
    modules = {
        match["path"] for match in MODULE.finditer((ROOT / "ARCHITECTURE.md").read_text())
    }
    assert {"net/turn", "client/consumer/pull/pull_loop"} <= modules
    assert {
        path
        for path in modules
        if not any((package / path).with_suffix(end).exists() for end in ("", ".py"))
    } == set()


def test_make_knows_every_target_that_is_named() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {
        match for page in PAGES for match in re.findall(r"\bmake ([a-z]+)`", page.read_text())
    }
    named |= set(re.findall(r"^make ([a-z]+)", blocks(PAGES[0], "sh")[0], re.MULTILINE))
    assert {"demo", "test"} <= named <= targets


def commands() -> list[str]:
    """Every `cometmq …` line that a page tells to type."""
    found = set()
    for page in PAGES:
        text = page.read_text()
        found |= set(
            re.findall(r"^(cometmq .*?)(?: +#.*)?$", "".join(blocks(page, "sh")), re.MULTILINE)
        )
        found |= {
            match for match in re.findall(r"`(cometmq [^`…]*)`", text) if "store" not in match
        }
    return sorted(found)


def runs_itself(command: object) -> bool:
    """Whether it is a group that does something without a command of its own."""
    return bool(getattr(command, "invoke_without_command", False))


@pytest.mark.parametrize("line", commands())
def test_the_command_line_understands_what_is_told_to_type(line: str) -> None:
    command: Any = get_command(app)
    arguments = shlex.split(line)[1:]
    if arguments[:1] == ["--profile"]:  # Before the command, with a value.
        del arguments[:2]
    context = command.make_context("cometmq", [], resilient_parsing=True)
    while arguments and hasattr(command, "list_commands"):
        if arguments[0] == "--version" or (
            arguments[0].startswith("-") and runs_itself(command)
        ):
            break
        command = command.get_command(context, arguments.pop(0))
    is_group = hasattr(command, "commands") and not runs_itself(command)
    if "--help" not in arguments and not is_group:
        command.make_context("cometmq", arguments, resilient_parsing=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_is_python(page: Path) -> None:
    for code in blocks(page, "python"):
        # A block that begins with a dot goes on a call of the block before it.
        whole = f"(reader\n{code})" if code.startswith(".") else code
        compile(whole, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


INSTALL = re.compile(r"pip install (?P<words>[^`\n]+)")
# What of ours needs an extra, by module or name, and a package that only this extra brings.
OF_EXTRAS = {
    "cometmq.spark": "pyspark",
    "cometmq.offline": "pyarrow",
    "delta_sink": "deltalake",
    "read_delta": "deltalake",
}


def package_of(requirement: str) -> str:
    """The name of the package that is required."""
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0].lower())


@cache
def packages_of_extras() -> dict[str, set[str]]:
    """The packages that CometMQ installs, under "" without an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: {*map(package_of, each)} for extra, each in lists.items()}


def installed_by(page: Path) -> set[str]:
    """The packages that a page says to install."""
    found = set(packages_of_extras()[""])
    for match in INSTALL.finditer(page.read_text()):
        for word in shlex.split(match["words"], comments=True):
            extras = re.search(r"\[([\w,]+)\]", word)
            names = extras[1].split(",") if extras else []
            found.update(*(packages_of_extras()[extra] for extra in names))
            if not extras and re.match(r"\w", word):
                found.add(package_of(word))
    return found


def needed_by(code: str) -> Iterator[str]:
    """The packages that a block of Python needs."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            named = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = [node.module or "", *(each.name for each in node.names)]
        else:
            continue
        yield from (OF_EXTRAS[name] for name in named if name in OF_EXTRAS)
        module = named[0].partition(".")[0]
        if module != "cometmq" and module not in sys.stdlib_module_names:
            yield package_of(packages_distributions()[module][0])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_how_to_install_what_its_code_imports(page: Path) -> None:
    """Beside what the first page says."""
    installed = installed_by(PAGES[0]) | installed_by(page)
    needed = {
        each
        for code in blocks(page, "python")
        if not code.startswith(".")
        for each in needed_by(code)
    }
    assert needed <= installed


@pytest.mark.parametrize(
    "code", [code for code in blocks(PAGES[0], "python") if "spark" not in code]
)
def test_the_code_of_the_readme_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Embedded() as cluster:
        program = compile(
            code.replace("127.0.0.1:9876", cluster.nameserver), "README.md", "exec"
        )
        exec(program, {})
    if "print" in code:
        sent, received = capsys.readouterr().out.splitlines()
        assert sent.startswith("SEND_OK")
        assert received == """paid ('order-17',) b'{"id": 17}'"""
