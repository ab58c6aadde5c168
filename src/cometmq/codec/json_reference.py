r"""fastjson's references: `{"$ref":"$.a[0]"}` for an object that occurs in a body a second time.

| path | meaning |
| --- | --- |
| `$` | the whole body |
| `@` | the object or array that holds the reference |
| `..` | the container that holds that one |
| `$.a.b[0]` | from the whole body, by names and indexes; `\` escapes a special character |

A reference within a body is replaced by the object itself. `@`, `..` and `$` refer to an object that contains the
reference. fastjson builds such cycles, but no body of RocketMQ has one; they are rejected here like every other
infinite value. Source: SerialContext, JSONPath of fastjson 1.2.83.
"""

import re

from cometmq.codec.lenient_json import NESTING_MAX
from cometmq.model.errors import CodecError
from cometmq.model.text import in_quotes

REFERENCE = "$ref"

_STEP = re.compile(r"""\.((?:\\.|[^.\[\\])++)|\[(-?\d++)\]|\[["']([^"'\]]*+)["']\]""")
_ESCAPE = re.compile(r"\\(.)")
_HOPS_MAX = 32  # References to references; a longer chain is a cycle.

# Maximum number of containers after expanding all references. Thirty references to references could otherwise expand to
# a billion; a real frame of 16 MiB repeats few containers.
SPELLED_OUT_MAX = 1_000_000


def resolve_references(root: object) -> object:
    """Replace fastjson references (`$ref`) within a parsed value, in place, and return the value.

    Raises:
        CodecError: A reference is malformed or has no target, or the result is infinite, over 32 levels or over a
            million containers.
    """
    if not isinstance(root, dict | list):
        return root
    # Unvisited values, each with the container that holds its parent.
    waiting: list[tuple[object, object]] = [(root, root)]
    while waiting:
        holder, above = waiting.pop()
        if isinstance(holder, dict):
            items = list(holder.items())
        elif isinstance(holder, list):
            items = list(enumerate(holder))
        else:
            continue
        for key, value in items:
            path = _path_of(value)
            if path is None:
                waiting.append((value, holder))
            else:
                holder[key] = _target(path, root, holder, above)
    _check_extent(root)
    return root


def _check_extent(root: object) -> None:
    """Raise CodecError if a value is too deep or too large once references are expanded.

    Visits every container once per level, with the number of times it occurs there.
    """
    level: dict[int, tuple[object, int]] = {id(root): (root, 1)}
    total = 0
    for _ in range(NESTING_MAX):
        below: dict[int, tuple[object, int]] = {}
        for holder, times in level.values():
            for item in holder.values() if isinstance(holder, dict) else holder:  # type: ignore[attr-defined]
                if isinstance(item, dict | list):
                    below[id(item)] = item, below.get(id(item), (item, 0))[1] + times
        total += sum(times for _, times in below.values())
        if not below or total > SPELLED_OUT_MAX:
            break
        level = below
    else:
        raise CodecError(f"JSON: more than {NESTING_MAX} levels, or an object inside itself")
    if total > SPELLED_OUT_MAX:
        raise CodecError(f"JSON: its references expand to over {SPELLED_OUT_MAX} containers")


def _path_of(value: object) -> str | None:
    if isinstance(value, dict) and len(value) == 1:
        path = value.get(REFERENCE)
        if isinstance(path, str):
            return path
    return None


def _target(path: str, root: object, holder: object, above: object) -> object:
    """Return the value at a path, following further `$` references; raises CodecError if there is none, or after 32 steps."""
    for _ in range(_HOPS_MAX):
        target = _lookup(path, root, holder, above)
        next_path = _path_of(target)
        if next_path is None or not next_path.startswith("$"):
            return target
        path = next_path
    raise CodecError(f"JSON: the reference {in_quotes(path)} is circular")


def _lookup(path: str, root: object, holder: object, above: object) -> object:
    if path in ("@", ".."):
        return holder if path == "@" else above
    if not path.startswith("$"):
        raise CodecError(f"JSON: {in_quotes(path)} is not a path of a reference")
    value, position = root, 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise CodecError(f"JSON: {in_quotes(path)} is not a path of a reference")
        value = _walk(value, step, path)
        position = step.end()
    return value


def _walk(value: object, step: re.Match[str], path: str) -> object:
    name: str | int
    if step[2] is not None:
        name = int(step[2][:20])
    else:
        name = _ESCAPE.sub(r"\1", step[1]) if step[1] is not None else step[3]
    try:
        if isinstance(value, dict):
            return value[name] if name in value else value[str(name)]
        if isinstance(value, list) and isinstance(name, int):
            return value[name]
    except (KeyError, IndexError):
        pass
    raise CodecError(f"JSON: the reference {in_quotes(path)} has no target")
