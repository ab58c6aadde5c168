"""What a command shows its page shows: each is run, and the values that it prints stand on the page."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import orjson
import pytest

from cometmq import Admin, Message, Producer, PushConsumer, Tag
from tests.arch.test_commands_of_nouns import IS_ACTION, SHOWING, TABLE
from tests.dashboard.special import FINE, GROUP, KEYS, TOPIC, Special
from tests.dashboard.web import Visitor, text_of
from tests.dashboard.world import ORDERS, SMALL, place
from tests.support.command_line import run
from tests.support.processes import wait_until

AT_ODDS = "at_odds"


class Walk(NamedTuple):
    """What a command is given, the fields of its page, and names of the JSON whose values the page says.

    Of what the command prints only the part counts that has the value `only[1]` in the field `only[0]`.
    """

    arguments: tuple[str, ...]
    fields: dict[str, Any]
    names: tuple[str, ...]
    only: tuple[str, str] | None = None


BROKER = {"name": "broker-a", "id": 0}
# It stands for the id of a message that GROUP has failed to consume, and in the fields for its place, too.
TRACED = "{traced}"
WALKS = {
    "doctor": Walk((), {}, ("check", "subject", "advice"), ("subject", GROUP)),
    "cluster producers": Walk((), {}, ("group", "client"), ("group", "walks")),
    "cluster replicas": Walk((), {}, ("broker", "address", "state")),
    "cluster list": Walk((), {}, ("broker", "cluster")),
    "cluster show": Walk(("broker-a",), BROKER, ("numbers",)),
    "cluster config": Walk(("broker-a", "--defaults"), BROKER, ("key",)),
    "kv list": Walk((KEYS,), {"namespace": KEYS}, ("key", "value")),
    "kv show": Walk((KEYS, "colour"), {"namespace": KEYS}, ("key", "value")),
    "tail": Walk((SMALL, "--from", "earliest", "--limit", "1"), {"topic": SMALL}, ("topic",)),
    "explain": Walk((TRACED, "--group", GROUP), {"place": TRACED, "group": GROUP}, ("answer",)),
    "group conflicts": Walk((AT_ODDS,), {"name": AT_ODDS}, ("clients", "says")),
    "topic list": Walk((), {"find": ORDERS}, ("topic", "messages"), ("topic", ORDERS)),
    "topic show": Walk((ORDERS,), {"name": ORDERS}, ("topic", "broker", "next")),
    "group list": Walk((), {"find": GROUP}, ("group",), ("group", GROUP)),
    "group show": Walk((FINE,), {"name": FINE}, ("group", "topic", "broker")),
    "offset show": Walk((FINE,), {"name": FINE}, ("topic", "offset", "lag")),
    "offset export": Walk((FINE,), {"name": FINE}, ("topic", "broker", "offset")),
    "message find": Walk((TOPIC, "--key", "one"), {"by": "key", "topic": TOPIC, "key": "one"}, ("body", "offset")),
    "message delayed": Walk((), {"kind": "level"}, ("topic", "body"), ("body", "later")),
    "message trace": Walk((TRACED,), {"id": TRACED}, ("group",)),
    "dlq list": Walk((), {}, ("group", "letters"), ("group", GROUP)),
    "dlq show": Walk((GROUP,), {"name": GROUP}, ("origin", "body"), ("body", "one")),
    "dlq stats": Walk((GROUP,), {"name": GROUP}, ("origin", "tries", "letters")),
    "dlq export": Walk((GROUP,), {"name": GROUP}, ("id", "origin")),
}  # fmt: skip
# test_users.py and test_waiting.py walk them, in clusters that have such things.
ELSEWHERE = {
    "transactions list": Walk((), {"kind": "discarded"}, ("body",)),
    "acl list": Walk((), {}, ("user", "type")),
    "acl show": Walk(
        ("clerk-of-the-page",),
        {"name": "clerk-of-the-page"},
        ("resource", "actions", "decision"),
    ),
}


def test_each_command_that_shows_what_a_page_shows_is_walked():
    pages = {path for path, is_action in IS_ACTION.items() if not is_action}
    shown = {name for name in SHOWING if TABLE[name].page in pages}
    assert WALKS.keys() | ELSEWHERE.keys() == shown


@pytest.mark.parametrize("name", WALKS)
def test_its_page_shows_what_a_command_shows(name, reader, nameserver, special, members):
    walk = filled(WALKS[name], special, nameserver)
    check_page(name, walk, printed(name, walk, nameserver), reader)


def filled(walk: Walk, special: Special, nameserver: str) -> Walk:
    arguments = tuple(special.traced if each == TRACED else each for each in walk.arguments)
    fields = {
        name: special.traced if each == TRACED else each for name, each in walk.fields.items()
    }
    if fields.pop("place", None):
        with Admin(nameserver) as asked:
            message = asked.messages.find(special.traced, topic=TOPIC)
        assert message is not None
        fields |= place(message.queue, message.queue_offset)
    return walk._replace(arguments=arguments, fields=fields)


@pytest.fixture(scope="module")
def members(nameserver: str, special: Special) -> Iterator[None]:
    """A producer that is connected, and two members of a group that subscribe differently."""
    with ExitStack() as stack:
        producer = stack.enter_context(Producer(nameserver, group="walks"))
        producer.send(Message(TOPIC, b"walked"))
        for tag in ("red", "blue"):
            consumer = PushConsumer(nameserver, group=AT_ODDS, listener=lambda _: None)
            consumer.subscribe(TOPIC, Tag(tag))
            stack.enter_context(consumer)
        asked = stack.enter_context(Admin(nameserver))
        wait_until(lambda: asked.groups.conflicts(AT_ODDS), seconds=30, what="a conflict")
        yield


def values(found: Any, names: tuple[str, ...]) -> Iterator[str]:
    """The texts of all values with these names in what a command printed, of a table its names."""
    if isinstance(found, list):
        for each in found:
            yield from values(each, names)
    elif isinstance(found, dict):
        for name, value in found.items():
            if name in names and (name == "numbers" or not isinstance(value, dict)):
                parts = value if isinstance(value, list | dict) else [value]
                yield from (str(each) for each in parts if each not in (None, ""))
            else:
                yield from values(value, names)


def printed(name: str, walk: Walk, nameserver: str, **given: Any) -> list[Any]:
    as_json = [] if name.endswith(" export") else ["--json"]
    done = run(*name.split(), *walk.arguments, *as_json, nameserver=nameserver, **given)
    found = [orjson.loads(line) for line in done.stdout.splitlines()]
    rows = [row for line in found for row in (line if isinstance(line, list) else [line])]
    if walk.only is not None:
        rows = [row for row in rows if row.get(walk.only[0]) == walk.only[1]]
    assert rows, done.stderr.decode()
    return rows


def check_page(name: str, walk: Walk, rows: list[Any], visitor: Visitor) -> None:
    page, texts = TABLE[name].page, list(dict.fromkeys(values(rows, walk.names)))
    assert page is not None
    assert texts
    for text in texts[:20]:
        grouped = f"{int(text):,}" if text.isdecimal() else text
        # As a whole: a 1 is not in 1,000 or in a date.
        whole = re.compile(rf"(?<![\w-])(?<!\d,){re.escape(grouped)}(?![\w-])(?!,\d)")

        def is_said(whole: re.Pattern[str] = whole) -> bool:
            return whole.search(text_of(visitor.get(page, **walk.fields))) is not None

        wait_until(is_said, seconds=20, what=f"{page} says {grouped!r}")
