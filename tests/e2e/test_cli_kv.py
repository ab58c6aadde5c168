"""`cometmq kv` as a process against two nameservers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from cometmq import Admin
from tests.support import processes
from tests.support.command_line import completions, run
from tests.support.processes import Program

ORDERS = "ORDER_TOPIC_CONFIG"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Program]]:
    folder: Path = tmp_path_factory.mktemp("names")
    with ExitStack() as stack:
        yield [
            stack.enter_context(processes.nameserver(folder / str(number)))
            for number in range(2)
        ]


def said(names: list[Program], *arguments: str, status: int = 0) -> str:
    """What `cometmq kv` prints on stdout, or as its error."""
    done = run("kv", *arguments, nameserver=";".join(each.address for each in names))
    assert done.returncode == status, done.stderr.decode()
    return (done.stderr if status else done.stdout).decode()


def test_a_value_is_set_listed_shown_and_deleted_at_every_nameserver(
    names: list[Program],
) -> None:
    value = "broker-a:4;broker-b:4"
    said(names, "set", ORDERS, "orders", value)
    line = {"namespace": ORDERS, "key": "orders", "value": value}
    for each in names:
        assert orjson.loads(said([each], "list", ORDERS, "--json")) == [line]
        assert orjson.loads(said([each], "show", ORDERS, "orders", "--json")) == line
    assert said(names, "show", ORDERS, "orders") == f"{value}\n"
    assert said(names, "list", ORDERS).splitlines()[1].split() == [ORDERS, "orders", value]
    said(names, "delete", ORDERS, "orders", "--yes")
    for each in names:
        assert orjson.loads(said([each], "list", ORDERS, "--json")) == []


def test_a_value_is_any_text_and_a_terminal_gets_no_control_characters(
    names: list[Program],
) -> None:
    value = "a=1;[red] \x1b[31m \N{SNOWMAN}"
    said(names, "set", "site", "banner", value)
    assert orjson.loads(said(names, "show", "site", "banner", "--json"))["value"] == value
    shown = said(names, "show", "site", "banner")
    assert "[red]" in shown
    assert "\x1b" not in shown
    said(names, "set", "site", "banner", "")
    assert said(names, "show", "site", "banner") == "\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("show", ORDERS, "no"), "has no key 'no'; cometmq kv list ORDER_TOPIC_CONFIG lists"),
        (("delete", "no", "k", "--yes"), "namespace 'no' has no key 'k'; cometmq kv list no"),
        (("set", "", "k", "v"), "the namespace of a key-value configuration must not be empty"),
        (("set", "n", " ", "v"), "the key of a key-value configuration must not be empty"),
        *(
            (("set", ORDERS, "t", value), "write the number of queues of each broker: 'broker-a:4")
            for value in ("", "8", "broker-a", "broker-a:0", "broker-a:-1", "a:4;", "a:4,b:4", "a:123456")
        ),
        (("set", "n", "k"), "Missing argument 'VALUE'"),
    ],
)  # fmt: skip
def test_wrong_use_is_refused_with_what_to_do(
    names: list[Program], arguments: tuple[str, ...], reason: str
) -> None:
    assert reason in " ".join(said(names, *arguments, status=2).split())
    with Admin(names[0].address) as admin:
        assert admin.brokers.kv_values("n") == admin.brokers.kv_values("") == {}
        assert "t" not in admin.brokers.kv_values(ORDERS)


def test_nothing_is_deleted_without_a_yes(names: list[Program]) -> None:
    said(names, "set", "site", "kept", "1")
    assert "which has the value 1?" in said(names, "delete", "site", "kept", status=3)
    assert said(names, "show", "site", "kept") == "1\n"


def test_a_nameserver_that_does_not_answer_is_named_and_the_other_has_the_change(
    names: list[Program],
) -> None:
    nowhere = f"127.0.0.1:{processes.free_port()}"
    done = run("kv", "set", "site", "half", "1", nameserver=f"{names[0].address};{nowhere}")
    assert (done.returncode, nowhere in done.stderr.decode()) == (3, True)
    assert said(names[:1], "show", "site", "half") == "1\n"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("show ORD", ["ORDER_TOPIC_CONFIG"]), ("show shop co", ["colour"]), ("set no ", [])],
)
def test_a_shell_is_offered_the_namespace_and_the_keys(
    names: list[Program], typed: str, offered: list[str]
) -> None:
    for key in ("colour", "size"):
        said(names, "set", "shop", key, "1")
    assert completions(f"cometmq kv {typed}", nameserver=names[0].address) == offered
