"""Checks what no linter knows: sizes of functions, names, docstrings, stray paths, classes of one name.

A rule is a function from one file to its complaints; `main` runs every rule over the tracked files
and prints `path:line: complaint`. There is no list of exceptions: a file that breaks a rule is mended.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FUNCTION_LINES_MAX = 40  # without the docstring: explaining costs nothing

# Words that name nothing. Everything that is, is some data; everything that acts is some manager.
EMPTY_WORDS = {
    "util",
    "utils",
    "common",
    "helper",
    "helpers",
    "manager",
    "impl",
    "misc",
    "service",
}
# And these where they end a name: a data folder is one, a TopicInfo is only a topic.
EMPTY_ENDINGS = {"info", "data"}
# Words of the protocol itself keep their names, alone or within a longer one: its users know them.
PROTOCOL_NAMES = re.compile(
    r"DataVersion|data_version|BrokerData|QueueData|RuntimeInfo|runtime_info|ClusterInfo|cluster_info"
)
# Names that Python, asyncio or pytest give.
GIVEN_NAMES = {"receive_data", "get_extra_info"}

# A path of somebody's machine, or of the place where the work was done, helps no reader.
MACHINE_PATH = re.compile(
    r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/|(?:\.\./|\b)shared/(?:design|golden|interop)"
)
DECISION = re.compile(r"docs/design/(\d{4})")
OPEN_END = re.compile(r"#.*\b(?:TO[D]O|FIX[M]E)\b")
# Where strangers read: what is installed, what they copy, and what they run. A test's docstring may speak of its name.
PLAIN_FOLDERS = ("src", "tools", "examples")
CLASS = re.compile(r"^(?:cdef )?class _*(\w+)", re.MULTILINE)
COMPILED_SUFFIXES = (".pyx", ".pxd")
COMPILED_FUNCTION = re.compile(
    r"^(?P<indent> *)(?:def|cdef) (?:[^\n(=]*[ *])?(?P<name>\w+)\([^)]*\)[^\n:]*:$",
    re.MULTILINE,
)
COMPILED_DOCSTRING = re.compile(r'^ *"""(?:[^"]|"(?!""))*"""$', re.MULTILINE)
COMPILED_MODULE_DOCSTRING = re.compile(r'(?:#[^\n]*\n)*"""[^"]')
LOCAL_TYPES = re.compile(r" +cdef ")
# First words of a docstring that lean on what stands above it: clauses without a sentence, and pronouns of nothing.
LEANING_START = re.compile(
    r"(?:What|Who|Whose|Whom|Which|Where|When|How|Why|It|Its|They|Their|Those|Such|Also|So|And|Or|But|As|There|The same)\b"
    r"|Whether (?:it|they|he|she|this|those|these|there)\b"
    r"|\w+ (?:it|them|him|her)\b"
    r"|(?:All|Any|Some|Each|Both|One|None|Most) of (?:it|them|these|those)\b"
    r"|(?:This|That|These)[,.:]"
)
TEXT_SUFFIXES = {
    ".py",
    ".pyx",
    ".pxd",
    ".md",
    ".toml",
    ".ini",
    ".cfg",
    ".sh",
    ".go",
    ".java",
    ".yaml",
    ".yml",
    ".txt",
    "",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One tracked text file; `tree` is its syntax where it is Python."""

    path: Path  # relative to the root of the project
    text: str
    tree: ast.Module | None
    classes: Mapping[str, list[Path]]  # of the package: where each name stands
    decisions: frozenset[str]  # the numbers of the pages in docs/design

    @property
    def is_code(self) -> bool:
        """Whether the file is Python, or compiled to go with it."""
        return self.tree is not None or self.path.suffix in COMPILED_SUFFIXES


Complaint = tuple[int, str]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Rule = Callable[[Source], Iterator[Complaint]]


def function_size(source: Source) -> Iterator[Complaint]:
    """A function has at most FUNCTION_LINES_MAX lines besides its docstring."""
    for node in functions(source):
        first = node.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
        lines = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring
        if lines > FUNCTION_LINES_MAX:
            yield node.lineno, f"{node.name} has {lines} lines; at most {FUNCTION_LINES_MAX}"


def compiled_function_size(source: Source) -> Iterator[Complaint]:
    """A compiled function has at most FUNCTION_LINES_MAX lines besides its docstring and the types of its locals."""
    if source.path.suffix != ".pyx":
        return
    heads = [*COMPILED_FUNCTION.finditer(source.text)]
    for head in heads:
        body = indented(source.text[head.end() :].split("\n"), len(head["indent"]))
        text = COMPILED_DOCSTRING.sub("", "\n".join(body), count=1)
        lines = sum(
            1 for line in text.split("\n") if line.strip() and not LOCAL_TYPES.match(line)
        )
        lines += head[0].count("\n") + 1
        if lines > FUNCTION_LINES_MAX:
            number = source.text.count("\n", 0, head.start()) + 1
            yield number, f"{head['name']} has {lines} lines; at most {FUNCTION_LINES_MAX}"


def indented(lines: list[str], indent: int) -> Iterator[str]:
    """The first lines that stand deeper than `indent`."""
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            return
        yield line


def module_docstring(source: Source) -> Iterator[Complaint]:
    """Every module says what it is; an empty `__init__.py` has nothing to say."""
    is_silent = source.tree is not None and not ast.get_docstring(source.tree)
    if source.path.suffix == ".pyx":
        is_silent = not COMPILED_MODULE_DOCSTRING.match(source.text)
    if is_silent and source.text.strip():
        yield 1, "no module docstring: what is it, how does it work?"


def first_line(source: Source) -> Iterator[Complaint]:
    """A docstring's first line is a sentence or a noun phrase that needs nothing above it."""
    for node in ast.walk(source.tree) if source.tree is not None else ():
        if not isinstance(node, Documented) or source.path.parts[0] not in PLAIN_FOLDERS:
            continue
        first = (ast.get_docstring(node) or ".").split("\n")[0]
        line = 1 if isinstance(node, ast.Module) else node.lineno
        if leaning := LEANING_START.match(first):
            yield (
                line,
                f"a docstring begins with {leaning[0]!r}: say what it is or does, in itself",
            )
        if not first.endswith("."):
            yield line, f"the first line of a docstring is no whole sentence: {first!r}"


def empty_words(source: Source) -> Iterator[Complaint]:
    """No module, class or function is named with a word that names nothing."""
    names = [(1, source.path.stem)]
    if source.tree is not None:
        names += [(node.lineno, node.name) for node in functions(source)]
        names += [
            (node.lineno, node.name)
            for node in ast.walk(source.tree)
            if isinstance(node, ast.ClassDef)
        ]
    elif source.path.suffix == ".pyx":
        for head in COMPILED_FUNCTION.finditer(source.text):
            names.append((source.text.count("\n", 0, head.start()) + 1, head["name"]))
    else:
        names = []
    for line, name in names:
        parts = words(PROTOCOL_NAMES.sub("", name))
        empty = EMPTY_WORDS.intersection(parts) | EMPTY_ENDINGS.intersection(parts[-1:])
        if empty and name not in GIVEN_NAMES and not name.startswith("test_"):
            yield line, f"{name}: '{empty.pop()}' names nothing"


def machine_path(source: Source) -> Iterator[Complaint]:
    """No file holds a path of one machine."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if match := MACHINE_PATH.search(line):
            yield number, f"a path of one machine: {match[0]}"


def class_twice(source: Source) -> Iterator[Complaint]:
    """No two classes of the package have one name, but for one and its compiled twin; what has none declines (`kernel.declines`)."""
    stem, folder = source.path.stem.lstrip("_"), source.path.parent
    twins = {source.path, folder / f"_{stem}.pyx", folder / f"{stem}.py"}
    for line, name in classes_of(source):
        places = source.classes.get(name.lstrip("_"), [])
        is_declined = any(place.name == "declines.py" for place in places)
        allowed = twins | {place for place in places if is_declined and place.parent == folder}
        others = [str(place) for place in places if place not in allowed]
        if others and source.path in places:
            yield line, f"class {name}: the name stands in {', '.join(others)}, too"


def classes_of(source: Source) -> Iterator[tuple[int, str]]:
    """The classes that stand at the left margin of a file, plain or compiled, with their lines."""
    if source.tree is not None:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef):
                yield node.lineno, node.name
    elif source.path.suffix == ".pyx":
        for found in CLASS.finditer(source.text):
            yield source.text.count("\n", 0, found.start()) + 1, found[0].split()[-1]


def open_end(source: Source) -> Iterator[Complaint]:
    """No comment announces work that is not done; an issue does."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if source.is_code and OPEN_END.search(line):
            yield number, "an open end: do it, or file it"


def decision_gone(source: Source) -> Iterator[Complaint]:
    """Every decision that a file names by its number has a page."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for decision in DECISION.findall(line):
            if decision not in source.decisions:
                yield number, f"there is no decision {decision} in docs/design"


RULES: tuple[Rule, ...] = (
    function_size,
    compiled_function_size,
    module_docstring,
    first_line,
    empty_words,
    machine_path,
    class_twice,
    open_end,
    decision_gone,
)


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a file."""
    for node in ast.walk(source.tree) if source.tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def words(name: str) -> list[str]:
    """The words of a name: `TopicTable_of` is topic, table, of."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def check(root: Path, paths: list[Path]) -> list[str]:
    """Run every rule over `paths` (relative to `root`); the complaints, in order of files."""
    classes = package_classes(root)
    decisions = frozenset(page.name[:4] for page in root.glob("docs/design/*.md"))
    complaints = []
    for path in sorted(paths):
        source = read(root, path, classes, decisions)
        found = sorted(complaint for rule in RULES for complaint in rule(source))
        complaints += [f"{path}:{line}: {text}" for line, text in found]
    return complaints


def read(
    root: Path, path: Path, classes: Mapping[str, list[Path]], decisions: frozenset[str]
) -> Source:
    """One file, parsed where it is Python."""
    text = (root / path).read_text(encoding="utf-8")
    tree = ast.parse(text) if path.suffix == ".py" else None
    return Source(path, text, tree, classes, decisions)


def package_classes(root: Path) -> dict[str, list[Path]]:
    """The classes of the package: where each name stands, the compiled modules' too."""
    places: dict[str, list[Path]] = {}
    for path in sorted((root / "src" / "cometmq").rglob("*.py*")):
        text = path.read_text(encoding="utf-8") if path.suffix in (".py", ".pyx") else ""
        # A program within a string has classes of its own, so Python is parsed.
        names = [
            node.name.lstrip("_")
            for node in (ast.parse(text).body if path.suffix == ".py" else ())
            if isinstance(node, ast.ClassDef)
        ]
        for name in names or (CLASS.findall(text) if path.suffix == ".pyx" else ()):
            places.setdefault(name, []).append(path.relative_to(root))
    return places


def tracked_texts(root: Path) -> list[Path]:
    """Text files that are, or are about to be, part of the project; what Java wrote is not ours to judge."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = [Path(line) for line in listing.stdout.splitlines()]
    return [
        path
        for path in paths
        if path.suffix in TEXT_SUFFIXES
        and not path.is_relative_to("tests/golden/stores")
        and (root / path).is_file()
    ]


def main() -> int:
    """Check the project that this file belongs to."""
    root = Path(__file__).resolve().parent.parent
    complaints = check(root, tracked_texts(root))
    print("\n".join(complaints) if complaints else "tidy")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
