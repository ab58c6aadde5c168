"""The tables of docs/operate/json.md and json-store.md, and whether what a command prints is as they say."""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from tests.support.pages import ROOT

PAGES = [ROOT / "docs" / "operate" / name for name in ("json.md", "json-store.md")]
_PLAIN: dict[str, tuple[type, ...]] = {
    "text": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip


@cache
def schemas() -> dict[str, tuple[str, dict[str, str]]]:
    """By command or part: "array" or "object", and the type of each field."""
    found = {}
    text = "".join(page.read_text() for page in PAGES)
    for section in re.split(r"^#{2,3} ", text, flags=re.MULTILINE)[1:]:
        title, _, table = section.partition("\n")
        fields = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.MULTILINE)
        kind = "array" if table.lstrip().startswith("An array") else "object"
        types = {name: type_.strip() for name, type_ in fields}
        for name in re.findall(r"`([^`]+)`", title) or [title]:
            found[name] = kind, types
    return found


def command_of(arguments: Sequence[str]) -> str | None:
    """The words of a command line that name its section; None where it is a job's or prints no JSON."""
    if "--json" not in arguments or arguments[0] == "pipeline":
        return None
    names = [" ".join(arguments[:count]) for count in (1, 2, 3)]
    return next((name for name in names if name in schemas()), names[1])


def check(command: str, printed: object) -> None:
    """Raises AssertionError where what a command printed is not as the page says."""
    complaints = list(_of_section(command, printed, command))
    assert not complaints, complaints


def _of_section(name: str, value: object, where: str) -> Iterator[str]:
    kind, fields = schemas()[name]
    if kind == "array":
        if not isinstance(value, list):
            yield f"{where} is no array"
            return
        for number, each in enumerate(value):
            yield from _object(fields, each, f"{where}[{number}]")
    else:
        yield from _object(fields, value, where)


def _object(fields: dict[str, str], value: object, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return
    # A body that is no text has another name.
    value = {
        "body" if "body" in fields and name == "body_hex" else name: each
        for name, each in value.items()
    }
    if list(value) != list(fields):
        yield f"{where} has {list(value)}, the page {list(fields)}"
        return
    for name, type_ in fields.items():
        yield from _typed(type_, value[name], f"{where}.{name}")


def _typed(type_: str, value: object, where: str) -> Iterator[str]:
    if type_.endswith(" or null"):
        if value is not None:
            yield from _typed(type_.removesuffix(" or null"), value, where)
    elif type_ in _PLAIN:
        is_bool = isinstance(value, bool)
        if not isinstance(value, _PLAIN[type_]) or (is_bool and type_ != "boolean"):
            yield f"{where} is {value!r}, no {type_}"
    elif " of " in type_:
        yield from _parts(type_, value, where)
    else:
        yield from _object(schemas()[type_][1], value, where)


def _parts(type_: str, value: object, where: str) -> Iterator[str]:
    kind, _, of = type_.partition(" of ")
    if isinstance(value, dict) and kind == "table":
        for name, each in value.items():
            yield from _typed(of, each, f"{where}.{name}")
    elif isinstance(value, list) and kind == "list":
        for number, each in enumerate(value):
            yield from _typed(of, each, f"{where}[{number}]")
    else:
        yield f"{where} is no {kind}"
