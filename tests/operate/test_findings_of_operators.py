"""What an operator of a small cluster found wrong, on a cluster like theirs: each finding with the right number, line or status.

Two nameservers, masters broker-a and broker-b, a slave of broker-a, a dashboard; groups that are well, stuck from their
first message, stuck later, with dead letters, and offline; delayed, timed and half messages. All are real processes but
the members, which are threads of this one. The last tests stop and kill brokers.
"""

import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.main import get_command

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
    TransactionState,
    __version__,
)
from cometmq.admin import GroupConfig
from cometmq.cli.__main__ import app
from cometmq.model.flags import PERM_READ, PERM_READ_WRITE
from tests.dashboard.web import READER, READER_PASSWORD, Served, Visitor, text_of, wait_for
from tests.support import processes
from tests.support.command_line import completions, run
from tests.support.lag_world import StuckMembers
from tests.support.metrics_page import page, samples
from tests.support.processes import Program, free_port, wait_until
from tests.support.programs import halted, run_program

pytestmark = pytest.mark.timeout(180)

ORDERS, MAILS = "orders", "mails"
QUEUES, EACH = 2, 10  # At each of two masters: 40 orders.
BROKERS = ("broker-a", "broker-b")
LETTERS = 3
# What each group has not consumed.
TRUTH = {"billing": 0, "analytics": 40, "fraud-check": 32, "offline-group": 34, "mailing": 0}
NOTHING = "\u2013"  # A cell without a value in the dashboard.


@dataclass
class World:
    """The cluster: its nameservers, brokers by name, their metrics ports, the dashboard, and when the first order was sent."""

    names: str
    brokers: dict[str, Program]
    ports: dict[str, int]
    conf: Path
    served: Served
    visitor: Visitor
    began_ms: int

    def printed(self, *arguments: str, status: int = 0) -> Any:
        done = run(*arguments, "--json", nameserver=self.names)
        assert done.returncode == status, done.stderr.decode()
        return orjson.loads(done.stdout)

    def table(self, *arguments: str) -> str:
        done = run(*arguments, nameserver=self.names)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def groups(self, status: int = 0) -> dict[str, dict[str, Any]]:
        return {each["group"]: each for each in self.printed("group", "list", status=status)}

    def page(self, broker: str, path: str = "/metrics") -> str:
        return page(self.ports[broker], path)

    def scraped(self, metric: str, *brokers: str) -> dict[str, list[float]]:
        """The values of a metric by group, at these brokers."""
        found: dict[str, list[float]] = defaultdict(list)
        for broker in brokers:
            for labels, value in samples(self.ports[broker], metric):
                found[labels["consumer_group"]].append(value)
        return found


class Unsure:
    """A producer that never decides on its transactions."""

    def execute(self, message: object, argument: object) -> TransactionState:
        return TransactionState.UNKNOWN

    def check(self, message: object) -> TransactionState:
        return TransactionState.UNKNOWN


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("operators")
    with ExitStack() as stack:
        starts = stack.enter_context(ThreadPoolExecutor(4))
        nameservers = [processes.nameserver(folder / f"names{n}") for n in range(2)]
        names = ";".join(each.address for each in nameservers)
        ports = {name: free_port() for name in ("broker-a", "slave", "broker-b")}
        roles: dict[str, dict[str, object]] = {
            "broker-a": {},
            "slave": {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"},
            "broker-b": {"brokerName": "broker-b"},
        }
        brokers = {
            name: processes.broker(
                folder / name,
                names,
                settings={**settings, "metricsPromExporterPort": ports[name]},
            )
            for name, settings in roles.items()
        }
        for started in (nameservers, brokers.values()):
            for program in starts.map(Program.start, started):
                stack.callback(program.stop)
        served = Served(folder / "dashboard", names)
        opened = starts.submit(served.__enter__)
        began_ms = fill(names)
        members(names, stack)
        stack.callback(opened.result().__exit__)
        visitor = Visitor(served).log_in()
        conf = folder / "broker-a" / "broker.conf"
        made = World(names, brokers, ports, conf, served, visitor, began_ms)

        def lags() -> dict[str, int]:
            return {name: each["lag"] for name, each in made.groups().items() if name in TRUTH}

        wait_until(lambda: lags() == TRUTH, seconds=60, what="all groups as far as they get")
        yield made


def fill(names: str) -> int:
    """Send the messages; return the time before the first, ms since 1970."""
    with Admin(names) as admin:
        admin.topics.create(ORDERS, queues=QUEUES)
        admin.topics.create(MAILS, queues=1)
        for group in TRUTH:
            admin.groups.create(GroupConfig(group))
    began_ms = int(time.time() * 1000)
    queues = [
        MessageQueue(ORDERS, broker, number) for broker in BROKERS for number in range(QUEUES)
    ]
    with (
        Producer(names) as producer,
        Producer(names, group="unsure", transaction_listener=Unsure()) as unsure,
    ):
        for number in range(EACH):
            for queue in queues:
                producer.send(Message(ORDERS, b"%d" % number, keys="o-1"), queue=queue)
        for number in range(LETTERS):
            producer.send(Message(MAILS, b"mail %d" % number, keys=f"m-{number}"))
        producer.send(Message("later", b"in an hour", delay_level=17))
        producer.send(Message("later", b"at a time", deliver=timedelta(hours=1)))
        unsure.send_in_transaction(Message("later", b"half of it"))
    with PullConsumer(names, group="offline-group") as consumer:
        for queue in queues[::QUEUES]:
            consumer.commit(queue, 3)
    return began_ms


def members(names: str, stack: ExitStack) -> None:
    """Start the members of the groups; those that hang are released before they are closed."""
    stuck = StuckMembers()

    def fails(_: StoredMessage) -> None:
        raise ValueError("this mail cannot be sent")

    settings = PushConsumerSettings(
        consume_from=ConsumeFrom.FIRST, retries_max=0, close_timeout_ms=1_000
    )
    for group, topic, listener in (
        ("billing", ORDERS, lambda _: None),
        ("analytics", ORDERS, stuck.at_once),
        ("fraud-check", ORDERS, stuck.later),
        ("mailing", MAILS, fails),
    ):
        stack.enter_context(
            PushConsumer(
                names, group=group, listener=listener, subscriptions=[topic], settings=settings
            )
        )
    stack.callback(stuck.over.set)


# --- 1 and 4: lag


def test_1_and_4_a_group_lags_by_the_same_in_messages_everywhere(world: World) -> None:
    masters = world.scraped("rocketmq_consumer_lag_messages", *BROKERS)
    with_slave = world.scraped("rocketmq_consumer_lag_messages", *BROKERS, "slave")
    groups, page = world.groups(), world.visitor.get("/groups").text
    lines = world.printed("offset", "show")
    symptoms = world.printed("doctor", "--lag", "31", status=1)
    for group, truth in TRUTH.items():
        assert (groups[group]["lag"], groups[group]["lag_unknown"]) == (truth, []), group
        assert sum(each["lag"] for each in lines if each["group"] == group) == truth, group
        assert sum(masters[group]) == sum(with_slave[group]) == truth, group
        assert re.search(rf'>{group}</bdi></a></td>.*?<td class="n"[^>]*>{truth}<', page), page
        said = [each["text"] for each in symptoms if each["subject"] == group]
        assert any(re.search(rf"\b{truth} messages", each) for each in said) == (truth > 31), (
            said
        )
    counted = world.scraped("rocketmq_send_to_dlq_messages_total", *BROKERS)
    assert counted["billing"], "increase() sees a first dead letter only after a 0"
    assert sum(counted["billing"]) == 0
    assert sum(counted["mailing"]) == LETTERS


def test_1_lag_in_time_is_the_age_of_the_oldest_message_that_is_not_consumed(
    world: World,
) -> None:
    wait_until(lambda: time.time() * 1000 > world.began_ms + 3_000, seconds=5, what="some age")
    groups, now_ms = world.groups(), int(time.time() * 1000)
    ages = world.scraped("rocketmq_consumer_lag_latency_milliseconds", *BROKERS)
    oldest_s = (now_ms - world.began_ms) / 1000
    for group, truth in TRUTH.items():
        behind_s = groups[group]["behind_s"]
        if truth == 0:
            assert behind_s is None, group
        else:
            assert oldest_s - 10 < behind_s <= oldest_s, group
            assert abs(max(ages[group]) / 1000 - behind_s) < 5, group
    lines = world.printed("offset", "show", "analytics", "--topic", ORDERS)
    assert not any(each["offset"] for each in lines), "analytics has consumed nothing"
    assert all(0 <= each["oldest_ms"] - world.began_ms < 10_000 for each in lines)
    shown = text_of(world.visitor.get("/group", name="analytics"))
    assert re.search(r"Behind \d+ (s|min)", shown), shown


# --- 8, 11 to 14: commands


def test_8_what_is_switched_off_is_marked_for_readers_too(world: World) -> None:
    reader = Visitor(world.served).log_in(READER, READER_PASSWORD)
    with Admin(world.names) as admin:
        admin.groups.set("billing", {"consume_enabled": False})
        admin.topics.set(MAILS, {"perm": PERM_READ})
        try:
            wait_for(reader, "/groups", "billing may not consume")
            assert "The group may not consume" in text_of(reader.get("/group", name="billing"))
            wait_for(reader, "/topics", "mails read only")
        finally:
            admin.groups.set("billing", {"consume_enabled": True})
            admin.topics.set(MAILS, {"perm": PERM_READ_WRITE})


def test_10_each_broker_tells_its_version(world: World) -> None:
    rows = world.printed("cluster", "list")
    assert [each["cometmq"] for each in rows] == [__version__] * len(world.brokers)
    for broker in world.brokers:
        assert "cometmq_build_info{" in world.page(broker)
        assert f'version="{__version__}"' in world.page(broker)
        assert __version__ in text_of(world.visitor.get("/brokers"))


def test_11_a_topic_gets_attributes_read_queues_and_one_broker(world: World) -> None:
    done = run(
        *("topic", "create", "settled", "--queues", "2", "--read-queues", "4"),
        *("--attribute", "message.type=FIFO", "--attribute", "retention.hours=24"),
        *("--broker", "broker-b"),
        nameserver=world.names,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode() == "settled has 2 queues to write and 4 to read on broker-b.\n"
    with Admin(world.names) as admin:
        ((broker, config),) = admin.topics.configs("settled").items()
    assert (broker, config.write_queues, config.read_queues) == ("broker-b", 2, 4)
    assert config.attributes == {"message.type": "FIFO", "retention.hours": "24"}
    done = run("topic", "set", "settled", "--no-attribute", "retention.hours",
               "--broker", "broker-b", nameserver=world.names)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    with Admin(world.names) as admin:
        assert admin.topics.configs("settled")["broker-b"].attributes == {
            "message.type": "FIFO"
        }
    wrong = run("topic", "create", "settled", "--broker", "broker-x", nameserver=world.names)
    assert wrong.returncode == 3
    assert "registered are: broker-a, broker-b" in wrong.stderr.decode()


def test_11_producers_are_listed_with_their_brokers(world: World) -> None:
    with Producer(world.names, group="shop") as producer:
        producer.send(Message("later", b"now"))
        (line,) = world.printed("cluster", "producers", "shop")
    assert line["language"] == "PYTHON"
    assert set(line["brokers"]) <= set(BROKERS)
    assert line["brokers"]
    assert abs(line["seen_ms"] - time.time() * 1000) < 60_000


def test_11_only_what_somebody_set_is_called_set(world: World) -> None:
    given = {line.partition("=")[0] for line in world.conf.read_text().splitlines()}
    lines = world.printed("cluster", "config", "broker-a")
    assert {each["key"] for each in lines if each["source"] == "set"} <= given
    assert {each["source"] for each in lines} == {"set"}


def test_12_without_pyspark_a_sentence_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; sys.argv = ['cometmq', 'pipeline', 'stats', '--help'];"
        "from cometmq.cli.__main__ import main; main()"
    )
    done = run_program(sys.executable, "-c", code, status=3)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.endswith(
        "cometmq pipeline needs pyspark, which is not installed; run pip install 'cometmq[spark]'"
    )


def commands() -> Iterator[tuple[str, Any, Any]]:
    """The name, command and context of each command."""
    root: Any = get_command(app)
    context = root.make_context("cometmq", [], resilient_parsing=True)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if name == "pipeline":
            continue  # It parses its arguments itself.
        inner = command.make_context(name, [], parent=context, resilient_parsing=True)
        yield name, command, inner
        for part, each in getattr(command, "commands", {}).items():
            yield (
                f"{name} {part}",
                each,
                each.make_context(part, [], parent=inner, resilient_parsing=True),
            )


def test_13_help_pages_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    count = 0
    for name, command, context in commands():
        command.format_help(context, context.make_formatter())
        page = capsys.readouterr().out
        assert "Usage:" in page, name
        assert not re.search(r"Raises:|typer\.Exit|<bool>|:class:|Args:", page), page
        count += 1
    assert count > 80


def test_14_the_shell_completes_each_topic_and_group(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", world.names)
    wanted = {"topic": ("ord", ORDERS), "group": ("fraud", "fraud-check")}
    checked = set()
    for name, command, context in commands():
        online = any(each.name == "nameserver" for each in command.params)
        if not online or name == "cluster producers":  # Groups of producers are others.
            continue
        for parameter in command.params:
            if parameter.name in wanted:
                begin, whole = wanted[parameter.name]
                offered = {
                    getattr(each, "value", each)
                    for each in parameter.shell_complete(context, begin)
                }
                assert whole in offered, f"{name} {parameter.name}"
                checked.add(name)
    assert {
        "topic show",
        "topic delete",
        "tail",
        "send",
        "consume",
        "message find",
    } <= checked
    assert completions("cometmq tail ord", nameserver=world.names) == [ORDERS]


def test_14_times_are_dates_under_a_name_without_ms(world: World) -> None:
    head, line, *_ = world.table(
        "offset", "show", "fraud-check", "--topic", ORDERS
    ).splitlines()
    assert head.split()[-3:] == ["consumed", "oldest", "at"]
    assert re.search(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*){3}$", line), line
    shown = world.table("cluster", "show", "broker-a")
    assert re.search(r"^bootTimestamp\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", shown, re.MULTILINE)


# --- the dashboard


def test_the_overview_has_dead_letters_and_problems(world: World) -> None:
    wait_for(world.visitor, "/", f"Dead letters {LETTERS}")
    page = wait_for(world.visitor, "/", "it has no members, and 34 messages wait for it")
    assert "abandoned offline-group" in page
    assert "Brokers up 3 of 3" in page


def test_lists_of_the_dashboard_are_sorted_as_one_likes(world: World) -> None:
    def first(path: str, sort: str) -> str:
        page = world.visitor.get(path, sort=sort).text
        found = re.search(r'<tr><td><a href="[^"]*"><bdi>([^<]*)<', page)
        assert found, page
        return found[1]

    assert first("/groups", "lag") == "analytics"
    assert first("/groups", "age") in ("analytics", "offline-group")
    assert first("/groups", "name") == "analytics"
    assert first("/topics", "name") == "later"
    assert first("/topics", "messages") == ORDERS
    wrong = world.visitor.get("/topics", sort="colour")
    assert wrong.status_code == 400
    assert "Sort by name, messages, rate, last" in text_of(wrong)


def test_a_topic_has_its_groups_with_lag_and_a_group_its_dead_letters(world: World) -> None:
    topic = text_of(world.visitor.get("/topic", name=ORDERS))
    for group in ("analytics", "fraud-check", "offline-group"):
        assert re.search(rf"{group} (active|no members) {TRUTH[group]} \d+ (s|min)", topic), (
            topic
        )
    assert re.search(rf"billing active 0 {NOTHING} 1", topic), topic
    page = world.visitor.get("/group", name="mailing")
    assert f"Dead letters {LETTERS}" in text_of(page)
    assert 'href="/dead/group?name=mailing"' in page.text
    assert (
        "Dead letters"
        not in text_of(world.visitor.get("/group", name="billing"))
        .split("Lag, last hour")[0]
        .partition("Behind")[2]
    )


def test_places_of_messages_name_the_broker_and_times_the_millisecond(world: World) -> None:
    page = text_of(world.visitor.get("/messages", by="time", topic=ORDERS))
    assert "Size Broker Queue Offset" in page
    for broker in BROKERS:
        assert re.search(rf"\d\d:\d\d:\d\d\.\d{{3}} o-1 \d 1 B {broker} [01] \d", page), page
    queues = text_of(world.visitor.get("/group", name="analytics"))
    assert f"{ORDERS} broker-a 0 0 10 10" in queues, queues


def test_a_member_shows_what_it_holds_and_its_settings_in_words(world: World) -> None:
    member = world.printed("group", "show", "analytics")["members"][0]["client"]
    page = text_of(world.visitor.get("/group/member", name="analytics", client=member))
    held = re.findall(rf"{ORDERS} broker-[ab] [01] \d+ (\d+) {NOTHING}", page)
    assert len(held) == 2 * QUEUES, page
    assert sum(map(int, held)) == TRUTH["analytics"], page
    assert "allocate_averagely" in page
    assert "<function" not in page


def test_why_a_message_is_not_consumed_is_no_good_news(world: World) -> None:
    with Admin(world.names) as admin:
        (letter,) = admin.messages.by_key(MAILS, "m-1")
    place = {
        "topic": MAILS,
        "broker": letter.queue.broker_name,
        "queue": letter.queue.queue_id,
        "offset": letter.queue_offset,
    }
    page = world.visitor.get("/message", group="mailing", **place).text
    assert re.search(r'<p class="problem"><bdi>[^<]*dead letter', page), text_of(
        world.visitor.get("/message", group="mailing", **place)
    )


def test_a_half_message_has_its_age_and_its_producer_group(world: World) -> None:
    page = text_of(world.visitor.get("/waiting", kind="half"))
    assert "Sent Age Topic Producer group" in page
    assert re.search(r"\d\d:\d\d:\d\d \d+ (s|min|min \d+ s) later unsure ", page), page


def test_bookkeeping_topics_are_not_listed_among_those_of_users(world: World) -> None:
    done = run("dlq", "replay", "mailing", "--to-topic", "again", nameserver=world.names)
    assert done.returncode == 0, done.stderr.decode()
    ledger = "DLQ_REPLAYED_mailing"
    wait_for(world.visitor, "/topics", ledger, all="1")
    assert ledger not in text_of(world.visitor.get("/topics"))
    assert ledger not in {each["topic"] for each in world.printed("topic", "list")}


# --- 2, 3 and 16: brokers that hang or die


def test_3_a_broker_that_hangs_puts_no_clock_wrong(world: World) -> None:
    with halted(world.brokers["slave"]):
        done = run("doctor", "--json", nameserver=world.names, patience=2)
    symptoms = orjson.loads(done.stdout)
    assert done.returncode == 1
    assert not [each for each in symptoms if each["check"] == "clock"], symptoms
    assert [each for each in symptoms if each["subject"] == "broker-a:1"], symptoms


def test_2_and_16_a_dead_master_is_visible_and_makes_no_lag_smaller(world: World) -> None:
    wait_until(
        lambda: run("cluster", "list", nameserver=world.names).returncode == 0,
        seconds=30,
        what="the slave is back",
    )
    world.brokers["broker-a"].kill()
    wait_until(
        lambda: run("cluster", "list", nameserver=world.names).returncode == 1,
        seconds=30,
        what="the nameserver's loss of a broker",
    )
    rows = world.printed("cluster", "list", status=1)
    assert [(each["broker"], each["id"]) for each in rows if each["state"] == "away"] == [
        ("broker-a", 0)
    ]
    groups = {
        each["group"]: each
        for each in orjson.loads(run("group", "list", "--json", nameserver=world.names).stdout)
    }
    for group, truth in TRUTH.items():
        line = groups[group]
        assert line["lag"] >= truth or line["lag_unknown"], line
    wait_until(
        lambda: "it copies from" not in world.page("slave", "/readyz"),
        seconds=30,
        what="the slave's loss of its master",
    )
    ready = world.page("slave", "/readyz")
    assert "SLAVE" in ready
    assert "accepts messages" not in ready
    assert "it cannot copy from" in ready
    with Served(world.conf.parents[1] / "later", world.names) as served:
        visitor = Visitor(served).log_in()
        page = wait_for(visitor, "/", "Brokers up 2 of 3")
        assert "The broker broker-a (0)" in page
