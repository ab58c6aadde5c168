"""Random bodies, names and folders for jobs, and what a plain reading of them says."""

import json
import re
from decimal import Decimal
from random import Random
from typing import Any

from cometmq import Admin, Message, Producer, StoredMessage
from tests.support import topics

# Columns of a message, of `_bad`, of our own work, of our folders' names of before, and such as SQL must quote.
NAMES = (
    "id", "body", "reason", "version", "queueId", "is_gone", "newest", "row", "ts", "read", "topic", "storeTimestamp",
    "a.b", "zip code", "größe", "it's", "`q`",
)  # fmt: skip
FOLDERS = (
    "my warehouse", "größe", "a [1] {b}", "100% #1", "what?*", "version=1", "a%20b", "日本, 2", "x=y&z",
)  # fmt: skip
_LETTERS = "aZ9äß .`'\"{}[]%#=/\\,;()日😀-+$:"
KINDS = (
    "BIGINT", "INT", "STRING", "DECIMAL(20,2)", "DOUBLE", "BOOLEAN", "ARRAY<BIGINT>", "STRUCT<`x y`: STRING>",
)  # fmt: skip
_RANGES = {"BIGINT": 63, "INT": 31}


class Bad(ValueError):
    """A body that is no row."""


class Number(str):
    """A number as a body writes it."""

    __slots__ = ()


def column_names(chosen: Random, count: int) -> list[str]:
    """Names that Spark can tell apart."""
    made = ["".join(chosen.choices(_LETTERS, k=chosen.randint(1, 9))) for _ in range(count)]
    names = chosen.sample(NAMES, count)
    taken, found = set[str](), []
    for one, other in zip(made, names, strict=True):
        name = other if chosen.random() < 0.6 or one.lower() in taken else one
        taken.add(name.lower())
        found.append(name)
    return found


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def ddl(columns: dict[str, str]) -> str:
    """Columns as `--schema` takes them."""
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())


def folder(chosen: Random, without: str = "") -> str:
    """A folder's name."""
    return chosen.choice([each for each in FOLDERS if not set(each) & set(without)])


# --- a body


def a_text(chosen: Random) -> str:
    """Any text, none, too."""
    return "".join(chosen.choices("abc äß日😀\n\t\"\\'{}0é\u2028", k=chosen.randint(0, 8)))


def a_number(chosen: Random) -> str:
    """A number as JSON writes it, of any size."""
    digits = chosen.choice((1, 3, 17, 19))
    whole = str(chosen.randrange(10**digits))
    return chosen.choice(
        (whole, f"-{whole}", f"{whole}.{chosen.randrange(1000)}", f"{whole}e{chosen.choice((0, 2, -2, 25))}",
         f"{chosen.randrange(99)}e{chosen.choice((400, 20000000, -20000000, 1000000000))}", "0e9", "-0", "1" * 5000)
    )  # fmt: skip


def a_value(chosen: Random, kind: str) -> str:
    """A value as JSON, most times one that the column takes."""
    if chosen.random() < 0.12:
        return chosen.choice(
            ("null", "[]", "{}", "true", '"x"', a_number(chosen), "[1, [2]]", '{"x y": 1.50}')
        )
    if kind in ("BIGINT", "INT"):
        return str(chosen.randrange(-(1 << 31), 1 << 31))
    if kind == "DOUBLE":
        return chosen.choice(
            (repr(chosen.uniform(-1e9, 1e9)), str(chosen.randrange(1 << 54)), "1e-7")
        )
    if kind.startswith("DECIMAL"):
        number = f"{chosen.randrange(10**18)}.{chosen.randrange(100):02}"
        return chosen.choice((number, f'"{number}"', f"-{number}00", "12e3", f"{number}1"))
    if kind == "BOOLEAN":
        return chosen.choice(("true", "false"))
    if kind.startswith("ARRAY"):
        return json.dumps(chosen.choices(range(-9, 9), k=chosen.randint(0, 3)))
    text = json.dumps(a_text(chosen), ensure_ascii=chosen.random() < 0.5)
    return text if kind == "STRING" else f'{{"x y": {text}, "more": 1}}'


def json_body(chosen: Random, columns: dict[str, str]) -> bytes:
    """A body of JSON, or nearly so."""
    pairs = [
        f"{json.dumps(name)}: {a_value(chosen, kind)}"
        for name, kind in columns.items()
        if chosen.random() < 0.9
    ]
    if chosen.random() < 0.2:
        pairs.append(f'"nobody asked": {a_value(chosen, chosen.choice(KINDS))}')
    sound = f"{{{', '.join(pairs)}}}"
    if chosen.random() < 0.7:
        return sound.encode()
    deep = chosen.choice((50, 3000, 100_000))
    return chosen.choice(
        (b"", b" ", b"null", b"[1]", sound.encode() + b"\n" + sound.encode(), b"\xef\xbb\xbf" + sound.encode(),
         sound[:-1].encode(), sound.encode("utf-16"), b"\xff" + sound.encode(),
         b'{"deep": ' + b"[" * deep + b"]" * deep + b"}", b"[" * deep, sound.replace("}", ", }").encode(),
         b'{"nobody asked": NaN}', b'{"nobody asked": "\\ud800"}', b'{"a": 1, "a": 1}', b"\0" * 9,
         f'{{{json.dumps(next(iter(columns)))}: "\\udc00"}}'.encode(), sound.encode() + b" \n")
    )  # fmt: skip


# --- its plain reading


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise Bad("a name twice")
    return dict(pairs)


def _refuse(text: str) -> None:
    raise Bad(text)


def _as_json(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{_as_json(name)}:{_as_json(each)}" for name, each in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_as_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _whole(value: Any, bits: int) -> int:
    is_whole = isinstance(value, Number) and re.fullmatch(r"-?\d{1,19}", value)
    if is_whole and -(1 << bits) <= int(value) < 1 << bits:
        return int(value)
    raise Bad(str(value)[:80])


def _decimal(value: Any) -> Decimal:
    if not isinstance(value, str) or not re.fullmatch(
        r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?", value
    ):
        raise Bad(str(value)[:80])
    number = Decimal(value)
    if number == 0:
        return Decimal(0)
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    lowest = number.adjusted() - len(digits.lstrip("0")) + 1
    if number.adjusted() >= 18 or lowest < -2:
        raise Bad(str(value)[:80])
    return number


def _double(value: Any) -> float:
    if not isinstance(value, Number):
        raise Bad(str(value)[:80])
    number = float(value)
    is_whole = re.fullmatch(r"-?\d+", value)
    if number in (float("inf"), float("-inf")) or (number == 0 and Decimal(value) != 0):
        raise Bad(value[:80])
    if is_whole and Decimal(value) != Decimal(number):
        raise Bad(value[:80])
    return number


def read_value(value: Any, kind: str) -> Any:
    """The value of a column that a value of a body says.

    Raises:
        Bad: it says none.
    """
    if value is None:
        return None
    if kind in _RANGES:
        return _whole(value, _RANGES[kind])
    if kind.startswith("DECIMAL"):
        return _decimal(value)
    if kind == "DOUBLE":
        return _double(value)
    if kind == "BOOLEAN" and isinstance(value, bool):
        return value
    if kind.startswith("ARRAY") and isinstance(value, list):
        return [read_value(each, "BIGINT") for each in value]
    if kind.startswith("STRUCT") and isinstance(value, dict):
        return (read_value(value.get("x y"), "STRING"),)
    if kind == "STRING":
        text = str(value) if isinstance(value, str) else _as_json(value)
        text.encode()
        return text
    raise Bad(str(value)[:80])


def read_json(body: bytes, columns: dict[str, str]) -> tuple[Any, ...]:
    """The row that a body says.

    Raises:
        Bad: it says none.
    """
    try:
        found = json.loads(
            body.decode(), object_pairs_hook=_pairs, parse_int=Number, parse_float=Number, parse_constant=_refuse
        )  # fmt: skip
        if not isinstance(found, dict):
            raise Bad("no object")
        return tuple(read_value(found.get(name), kind) for name, kind in columns.items())
    except (ValueError, RecursionError) as error:
        raise Bad(str(error)) from None


# --- a topic


def send(cluster: Any, messages: list[Message], queues: int = 1) -> None:
    """Send messages in their order to a topic, which is made where it is not there."""
    topic = messages[0].topic
    with Admin(cluster.nameserver) as admin:
        if topic not in admin.topics.list():
            admin.topics.create(topic, queues=queues)
    with Producer(cluster.nameserver) as producer:
        for start in range(0, len(messages), 10):
            producer.send_batch(messages[start : start + 10])


def read_topic(cluster: Any, topic: str) -> list[StoredMessage]:
    """All messages of a topic, queue by queue."""
    return topics.read(cluster.nameserver, topic)
