"""Holds the kernel to bytes, numbers and its own rows: it imports and touches no object of store or broker.

import-linter reads no `.pyx`, and the compiler takes any attribute of anything. So this reads all files of the kernel:

- what they import of ours is the kernel's or the model's;
- each attribute that they name is one of a built-in type, of an imported module, or declared in the kernel;
- in compiled code it is asked only of a name that was declared with such a type, never of an untyped one.

What it cannot see is what a built-in attribute's name hides on an object without a type in plain Python; there mypy
sees it, since a queue is a `QueueEnd` to the kernel and no `Any`.

`python tools/kernel_wall.py` says what is wrong, and ends with 1; or that nothing is.
"""

from __future__ import annotations

import ast
import re
import sys
from array import array
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

ROOT = Path(__file__).resolve().parent.parent
KERNEL = Path("src") / "cometmq" / "kernel"
SUFFIXES = (".py", ".pyx", ".pxd")
COMPILED = (".pyx", ".pxd")
ALLOWED = ("cometmq.kernel", "cometmq.model")
WELL = "the kernel imports and touches no object of store or broker"

BUILT_IN = (
    bytes,
    bytearray,
    memoryview,
    str,
    int,
    tuple,
    list,
    dict,
    set,
    frozenset,
    array,
    deque,
    Struct,
    re.Pattern,
    re.Match,
)
# Of memory views and buffers in compiled code.
OF_BUFFERS = {"shape", "buf", "len"}
TYPES = {"bytes", "bytearray", "str", "list", "dict", "tuple", "Py_buffer"}

IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\b|c?import\s+([\w.]+))", re.MULTILINE)
IMPORTED = re.compile(r"^from\s+[\w.]+\s+import\s+(\([^)]*\)|.*)$", re.MULTILINE)
TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|c?"(?:[^"\\\n]|\\.)*"|c?\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*'
)
OWN_TYPE = re.compile(r"\bcdef (?:class|struct) (\w+)")
FIELD = re.compile(
    r"^ {4}(?:cdef )?(?:public )?[\w ]+?[ *](\w+)(?:\[\w+\])?(?:\(| *$)", re.MULTILINE
)
FUNCTION = re.compile(r"\bc?p?def [^\n(=]*\(([^)]*)\)")
LOCALS = re.compile(r"^ +cdef ([^(\n]+(?:\([^\n]*)?)$", re.MULTILINE)
# A type and a name; of what is called and indexed behind a "=" nothing is kept.
NAMED = re.compile(
    r"(?:const )?(?:unsigned )?(\w+(?:\[::1\])?)[ *]+(\w+)(?: not None)?(?: *=.*)?"
)
ATTRIBUTE = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\.([A-Za-z_]\w*)|\.([A-Za-z_]\w*)")


def check(root: Path) -> list[str]:
    """The faults in the kernel below `root`, in order of files."""
    paths = sorted(path for path in (root / KERNEL).iterdir() if path.suffix in SUFFIXES)
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    names, types = declared(texts)
    complaints = []
    for path, text in texts.items():
        found = [*wrong_imports(text)]
        if path.suffix in COMPILED:
            found += untyped_attributes(text, names, types)
        else:
            found += unknown_attributes(ast.parse(text), names)
        complaints += [
            f"{path.relative_to(root)}:{line}: {what}" for line, what in sorted(found)
        ]
    return complaints


def declared(texts: dict[Path, str]) -> tuple[set[str], set[str]]:
    """Attributes that the kernel may name, and types of compiled code that have some."""
    names = {name for kind in BUILT_IN for name in dir(kind)} | OF_BUFFERS
    types = set(TYPES)
    for path, text in texts.items():
        if path.suffix in COMPILED:
            for block in re.split(r"\n(?=\S)", blanked(text)):
                if own := OWN_TYPE.match(block):
                    types.add(own[1])
                    names.update(FIELD.findall(block))
                    names.update(re.findall(r"^ {4}cdef [\w ]*?(\w+)\(", block, re.MULTILINE))
        else:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    names.update(fields_of(node))
    return names, types


def fields_of(node: ast.ClassDef) -> Iterator[str]:
    """The fields of a class of plain Python: declared ones, methods, and what `self` is given."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef):
            yield inner.name
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner.attr


def wrong_imports(text: str) -> Iterator[tuple[int, str]]:
    """Imports of ours that are neither the kernel's nor the model's."""
    for match in IMPORT.finditer(text):
        module = match[1] or match[2]
        is_ours = module == "cometmq" or module.startswith("cometmq.")
        if is_ours and not any(
            module == each or module.startswith(f"{each}.") for each in ALLOWED
        ):
            yield line_of(text, match.start()), f"it imports {module}"


def unknown_attributes(tree: ast.Module, names: set[str]) -> Iterator[tuple[int, str]]:
    """Attributes in plain Python that no built-in type and no class of the kernel has."""
    own = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for each in tree.body:
        if isinstance(each, ast.Assign):
            own.update(target.id for target in each.targets if isinstance(target, ast.Name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in names:
            owner: ast.expr = node.value
            while isinstance(owner, ast.Attribute | ast.Call):
                owner = owner.value if isinstance(owner, ast.Attribute) else owner.func
            if not (isinstance(owner, ast.Name) and owner.id in own):
                yield (
                    node.lineno,
                    f"{ast.unparse(node)}: nothing of the kernel's has {node.attr!r}",
                )


def untyped_attributes(
    text: str, names: set[str], types: set[str]
) -> Iterator[tuple[int, str]]:
    """Attributes in compiled code that are asked of an untyped name, or that no known type has."""
    code = blanked(text)
    code = IMPORT.sub(lambda match: " " * len(match[0]), code)
    imported = {
        word for names_of in IMPORTED.findall(text) for word in re.findall(r"\w+", names_of)
    }
    start = 0
    for block in re.split(r"(?<=\n)(?=[^\s)])", code):
        known = typed_names(block, types) | imported | types | {"self"}
        for match in ATTRIBUTE.finditer(block):
            owner, name = match[1], match[2] or match[3]
            line = line_of(code, start + match.start())
            if owner is not None and owner not in known:
                yield line, f"{owner}.{name}: {owner} has no type"
            elif name not in names:
                yield line, f"{match[0]}: nothing of the kernel's has {name!r}"
        start += len(block)


def typed_names(code: str, types: set[str]) -> set[str]:
    """Names that are declared with a type that has known attributes, and nowhere with another or none."""
    found: dict[str, set[str]] = {}
    for arguments in FUNCTION.findall(code):
        for part in arguments.split(","):
            match = NAMED.fullmatch(part.strip())
            name, kind = (match[2], match[1]) if match else (part.strip(), "object")
            found.setdefault(name, set()).add(kind)
    for line in LOCALS.findall(code):
        first, *others = re.split(r",(?![^(\[]*[)\]])", line)
        if match := NAMED.fullmatch(first.strip()):
            names = [match[2], *(re.split(r"[ =\[]", other.strip(" *"))[0] for other in others)]
            for name in names:
                found.setdefault(name, set()).add(match[1])
    return {
        name
        for name, kinds in found.items()
        if all(kind in types or kind.endswith("[::1]") for kind in kinds)
    }


def blanked(text: str) -> str:
    """Compiled code with spaces for texts and comments, so that places stay."""
    return TEXT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def line_of(text: str, position: int) -> int:
    """The number of the line of a place."""
    return text.count("\n", 0, position) + 1


def main() -> int:
    """Check the kernel of the project that this file belongs to."""
    complaints = check(ROOT)
    print("\n".join(complaints) if complaints else WELL)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
