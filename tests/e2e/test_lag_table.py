"""One table: the lag of groups as the commands, the dashboard and metrics give it, beside the truth."""

import re
from pathlib import Path

import orjson
import pytest

from cometmq import Admin
from tests.dashboard.web import Served, Visitor, text_of, wait_for
from tests.support.command_line import run
from tests.support.lag_world import AT_ONE_BROKER, LIVE, TOPIC, TRUTH, LagWorld, lag_world
from tests.support.processes import wait_until

pytestmark = pytest.mark.timeout(300)
KNOWN = {group: truth for group, truth in TRUTH.items() if truth is not None}


def words(truth: int | None) -> str:
    return "unknown" if truth is None else str(truth)


def printed(world: LagWorld, *arguments: str, status: int):
    done = run(*arguments, "--json", nameserver=world.names)
    assert done.returncode == status, done.stderr.decode()
    return orjson.loads(done.stdout), done.stderr.decode()


def of_table(text: str, group: str) -> str:
    """The lag of a group in a printed table."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"{group} ")]
    found = re.search(r"(at least \d+|unknown|\d+) +(?:\d+|-) +\d+\.\d", row)
    assert found, row
    return found[1]


def test_every_face_gives_the_lag_that_is_true_or_says_that_it_is_unknown(
    tmp_path: Path,
) -> None:
    with lag_world(tmp_path) as world:
        with Served(tmp_path / "dashboard", world.names) as served:
            visitor = Visitor(served).log_in()
            check_healthy(world, visitor)
        world.programs["broker-b"].kill()
        check_without_a_broker(world, tmp_path)
        world.programs["broker-a"].kill()
        check_with_a_slave_only(world)


def check_healthy(world: LagWorld, visitor: Visitor) -> None:
    table = run("group", "list", nameserver=world.names)
    assert table.returncode == 0, table.stderr.decode()
    scraped = world.scraped("broker-a", "slave", "broker-b")
    assert scraped == world.scraped("broker-a", "broker-b"), "the slave is counted, too"
    lines, _ = printed(world, "offset", "show", status=0)
    page = visitor.get("/groups").text
    for group, truth in TRUTH.items():
        assert of_table(table.stdout.decode(), group) == words(truth), group
        assert f">{group}<" in page
        row = re.search(rf">{group}</bdi></a></td>.*?<td class=\"n\"[^>]*>([^<]*)<", page)
        assert row, page
        assert row[1] == words(truth), group
        shown = text_of(visitor.get("/group", name=group))
        assert f"Lag {words(truth)} msg" in shown, group
        if truth is None:
            assert not scraped.get(group)
        else:
            at_brokers = AT_ONE_BROKER if group == "offline-at-one" else truth
            assert scraped[group] == at_brokers, group
            assert sum(each["lag"] for each in lines if each["group"] == group) == truth, group
    total = sum(KNOWN.values())
    wait_for(visitor, "/", f"Lag of all groups {total} msg")
    readers, _ = printed(world, "topic", "show", TOPIC, status=0)
    assert {
        each["group"]: each["lag"] for each in readers["groups"] if each["group"] in KNOWN
    } == KNOWN


def check_without_a_broker(world: LagWorld, folder: Path) -> None:
    """Each lag is at least what the others have, and everything says so."""
    wait_until(
        lambda: run("cluster", "list", nameserver=world.names).returncode == 1,
        seconds=60,
        what="the nameserver's loss of a broker",
    )
    members, _ = printed(world, "cluster", "list", status=1)
    away = {
        each["broker"]: (each["state"], each["address"]) for each in members if each["error"]
    }
    assert away == {"broker-b": ("away", None)}
    for arguments in (
        ("group", "list"),
        ("topic", "list"),
        ("offset", "show"),
        ("topic", "show", TOPIC),
    ):
        _, said = printed(world, *arguments, status=1)
        assert "incomplete: broker-b left the nameserver at" in said
    check_that_each_list_names_it(world)
    table = run("group", "list", nameserver=world.names).stdout.decode()
    for group in ("stuck-first", "stuck-later", "ordered", "offline", "popping"):
        lag, unknown = world.listed()[group]
        assert 0 < lag < KNOWN[group]
        assert of_table(table, group) == f"at least {lag}"
        assert any("broker-b left the nameserver at" in each for each in unknown)
    assert of_table(table, "healthy") == "unknown"
    lines, _ = printed(world, "offset", "show", "stuck-later", status=1)
    lost = [each for each in lines if each["broker"] == "broker-b" and each["topic"] == TOPIC]
    assert [(each["queue"], each["lag"]) for each in lost] == [(0, None), (1, None)]
    topics, _ = printed(world, "topic", "list", status=1)
    (topic,) = (each for each in topics if each["topic"] == TOPIC)
    assert (topic["messages"], topic["brokers"]) == (20, ["broker-a", "broker-b"])
    assert "broker-b left the nameserver at" in topic["messages_unknown"][0]
    check_a_dashboard_that_starts_now(world, folder)


def check_that_each_list_names_it(world: LagWorld) -> None:
    for arguments in (
        ("cluster", "replicas"),
        ("topic", "show", TOPIC),
        ("message", "delayed"),
        ("message", "find", TOPIC, "--key", "none"),
        ("transactions", "list"),
        ("group", "conflicts"),
        ("dlq", "list"),
    ):
        done = run(*arguments, nameserver=world.names)
        assert done.returncode == 1, (arguments, done.stderr)
        said = done.stderr.decode()
        assert said.count("incomplete: broker-b left the nameserver at") == 1, (arguments, said)
    done = run("cluster", "list", nameserver=world.names)
    assert done.returncode == 1
    assert re.search(r"broker-b +0 +- +away", done.stdout.decode())
    done = run("cluster", "show", "broker-b", nameserver=world.names)
    assert done.returncode == 3
    assert "broker-b left the nameserver at" in done.stderr.decode()
    # Another topic is complete: that broker has no queue of it.
    with Admin(world.names) as admin:
        admin.topics.create("elsewhere", queues=1)
    assert run("topic", "show", "elsewhere", nameserver=world.names).returncode == 0


def check_a_dashboard_that_starts_now(world: LagWorld, folder: Path) -> None:
    with Served(folder / "later", world.names) as served:
        visitor = Visitor(served).log_in()
        wait_for(visitor, "/", "Brokers up 2 of 3")
        wait_for(visitor, "/", "Lag of all groups at least")
        assert "broker-b (0) has not answered since" in text_of(visitor.get("/"))
        assert "Incomplete: broker-b left the nameserver at" in text_of(visitor.get("/groups"))
        assert "Incomplete: broker-b left the nameserver at" in text_of(visitor.get("/topics"))
        for path, fields in (
            ("/dead", {}),
            ("/replicas", {}),
            ("/waiting", {"kind": "level"}),
            ("/waiting", {"kind": "half"}),
        ):
            said = text_of(visitor.get(path, **fields))
            assert "Incomplete: broker-b left the nameserver at" in said, (path, fields)


def check_with_a_slave_only(world: LagWorld) -> None:
    """The slave says what it has copied, and what its members do not tell it is unknown, not 0."""

    def is_known_dead() -> bool:
        members = orjson.loads(run("cluster", "list", "--json", nameserver=world.names).stdout)
        return ("broker-a", 0, "away") in [
            (each["broker"], each["id"], each["state"]) for each in members
        ]

    wait_until(is_known_dead, seconds=60, what="the nameserver's loss of a master")
    assert run("cluster", "list", nameserver=world.names).returncode == 1
    listed = world.listed()
    for group in LIVE:
        assert listed[group][1], f"{group} is known, though broker-b is away"
    assert listed["offline"][0] == 17
    # The slave exports what its master does not any more.
    wait_until(
        lambda: world.scraped("slave").get("offline") == 17,
        seconds=30,
        what="the slave's own lines of lag",
    )
