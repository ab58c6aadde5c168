"""The command `cometmq`, as its users run it: real processes, real sockets."""

import platform
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from cometmq import Admin, Message, MessageQueue, Producer, __version__
from cometmq.embedded import Embedded
from cometmq.kernel import KERNEL, WHY_PLAIN
from cometmq.wire.h2.choice import ENGINE
from tests.support import processes
from tests.support.command_line import (
    COMETMQ,
    SECONDS_MAX,
    Running,
    environment,
    json_lines,
    output,
    run,
)
from tests.support.processes import broker_port, free_port, write_conf
from tests.support.programs import run_program, said_by_python

# What `cometmq --help` cannot do without: a program that imports only this is its measure.
HELP_NEEDS = "import asyncio, ssl, rich.markdown, typer.rich_utils"


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


# --- the command itself


def test_help_is_there_at_once() -> None:
    done = run("--help", nameserver=None)
    assert done.returncode == 0
    for command in ("up", "nameserver", "broker", "topic", "send", "tail", "consume"):
        assert command in done.stdout.decode()


def test_help_costs_little_more_than_the_libraries_that_print_it() -> None:
    """Twice their processor time at most: the least of three tries each, in turns."""
    ours, theirs = [], []
    for _ in range(3):
        ours.append(processor_seconds([*COMETMQ, "--help"]))
        theirs.append(processor_seconds([sys.executable, "-c", HELP_NEEDS]))
    assert min(ours) <= 2 * min(theirs), f"{min(ours):.2f} s, {min(theirs):.2f} s"


def processor_seconds(command: list[str]) -> float:
    """The processor time of a program from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=SECONDS_MAX, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("cometmq.cli.__main__", {"cometmq.client", "cometmq.broker", "uvloop", "pyspark"}),
        ("cometmq.broker.__main__", {"typer", "rich", "pyspark", "cometmq.client"}),
    ],
)
def test_a_program_imports_only_what_it_starts(module: str, unwanted: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    assert unwanted.isdisjoint(said_by_python("-c", code).split())


@pytest.mark.parametrize("program", [(), ("broker",), ("nameserver",)])
def test_each_program_says_its_version_kernel_and_python(program: tuple[str, ...]) -> None:
    kernel = "compiled" if KERNEL == "fast" else f"plain: {WHY_PLAIN}"
    build = f"kernel {kernel}, Python {platform.python_version()}, HTTP/2 {ENGINE}"
    line = f"cometmq {__version__} ({build})\n"
    assert run(*program, "--version", nameserver=None).stdout.decode() == line
    if program:
        alone = [sys.executable, "-m", f"cometmq.{program[0]}", "--version"]
        assert subprocess.check_output(alone, text=True, timeout=SECONDS_MAX) == line


def test_a_plain_kernel_says_why() -> None:
    said = run_program(*COMETMQ, "--version", env={"COMETMQ_KERNEL": "reference"}).stdout
    assert "(kernel plain: COMETMQ_KERNEL=reference asks for it, Python" in said


# --- sending


def test_a_message_is_sent_and_its_place_is_printed(cluster: Embedded, topic: str) -> None:
    printed = output("send", topic, "hello", cluster=cluster)
    assert re.fullmatch(r"SEND_OK broker-a q\d#0 [0-9A-F]{32}\n", printed)


def test_tag_keys_and_properties_arrive(cluster: Embedded, topic: str) -> None:
    options = ("--tag", "paid", "--key", "A-1", "--key", "B-2", "--property", "colour=blue")
    [sent] = json_lines("send", topic, "hello", *options, cluster=cluster)
    [got] = json_lines("tail", topic, "--from", "earliest", "--limit", "1", cluster=cluster)
    assert sent["status"] == "SEND_OK"
    expected = {
        "body": "hello",
        "tag": "paid",
        "keys": ["A-1", "B-2"],
        "properties": {"colour": "blue"},
        "id": sent["id"],
        "queue": sent["queue"],
        "offset": 0,
    }
    assert {name: got[name] for name in expected} == expected


def test_each_line_of_stdin_is_a_message(cluster: Embedded, topic: str) -> None:
    lines = [f"line {number} {'x' * (number % 100)}".encode() for number in range(5000)]
    run("send", topic, "-", nameserver=cluster.nameserver, stdin=b"\n".join(lines) + b"\n\n")
    got = json_lines("tail", topic, "--from", "earliest", "--limit", "5000", cluster=cluster)
    assert sorted(str(each["body"]) for each in got) == sorted(line.decode() for line in lines)


def test_a_body_is_sent_as_often_as_asked(cluster: Embedded, topic: str) -> None:
    done = run("send", topic, "again", "--count", "300", nameserver=cluster.nameserver)
    assert done.stdout == b""
    assert re.fullmatch(r"300 messages in \d+\.\d\d s, [\d,]+/s\n", done.stderr.decode())


def test_a_queue_can_be_named(cluster: Embedded, topic: str) -> None:
    output("send", topic, "first", cluster=cluster)
    for _ in range(2):
        [sent] = json_lines("send", topic, "there", "--queue", "2", cluster=cluster)
        assert sent["queue"] == 2
    refused = run("send", topic, "nowhere", "--queue", "99", nameserver=cluster.nameserver)
    assert refused.returncode == 2
    assert b"no broker has queue 99" in refused.stderr


# --- receiving


def test_tail_shows_messages_as_they_come(
    cluster: Embedded, topic: str, tmp_path: Path
) -> None:
    output("send", topic, "before", cluster=cluster)
    with Running(tmp_path, "tail", topic, nameserver=cluster.nameserver) as tail:
        tail.wait_for("Ctrl-C", path=tail.err)
        output("send", topic, "while it looks", "--tag", "t", cluster=cluster)
        line = tail.wait_for(r"\d\d:\d\d:\d\d\.\d{3} q\d#\d t  while it looks\n")
        assert "before" not in line.string
        assert tail.end() == 0
        assert "Traceback" not in tail.err.read_text()


def test_tail_goes_on_when_the_broker_has_restarted(topic: str, tmp_path: Path) -> None:
    same = partial(
        Embedded, tmp_path / "data", nameserver_port=free_port(), broker_port=broker_port()
    )
    with same() as cluster:
        where = cluster.nameserver
        output("send", topic, "before", cluster=cluster)
        tail = Running(tmp_path, "tail", topic, "--from", "earliest", nameserver=where)
        with tail:
            tail.wait_for("before")
            cluster.close()
            tail.wait_for("Broker broker-a cannot be read", path=tail.err)
            with same() as again:
                output("send", topic, "after", cluster=again)
                tail.wait_for("after")
            assert tail.err.read_text().count("is lost") <= 2
            assert tail.end() == 0


def test_tail_goes_on_when_one_of_two_brokers_comes_back(topic: str, tmp_path: Path) -> None:
    """Meanwhile the route names only the other one."""
    with ExitStack() as stack:
        names = stack.enter_context(processes.nameserver(tmp_path / "names"))
        brokers = [
            stack.enter_context(
                processes.broker(tmp_path / name, names.address, settings={"brokerName": name})
            )
            for name in ("broker-a", "broker-b")
        ]
        with Admin(names.address) as admin:
            admin.topics.create(topic, queues=1)
        tail = Running(tmp_path, "tail", topic, "--from", "earliest", nameserver=names.address)
        with tail:
            tail.wait_for("Ctrl-C", path=tail.err)
            brokers[1].stop()
            tail.wait_for("Broker broker-b cannot be read", path=tail.err)
            time.sleep(3)  # The route is read anew each second.
            brokers[1].start()
            with Producer(names.address) as producer:
                queue = MessageQueue(topic, "broker-b", 0)
                producer.send(Message(topic, b"after"), queue=queue)
            tail.wait_for("after")
            assert tail.end() == 0


def test_tail_filters_by_tag(cluster: Embedded, topic: str) -> None:
    for tag in ("a", "b", "c", "a"):
        output("send", topic, f"of {tag}", "--tag", tag, cluster=cluster)
    options = ("--from", "earliest", "--tag", "a || c", "--limit", "3")
    got = json_lines("tail", topic, *options, cluster=cluster)
    assert sorted(str(each["body"]) for each in got) == ["of a", "of a", "of c"]


def test_tail_begins_at_a_time(cluster: Embedded, topic: str) -> None:
    output("send", topic, "old", "--queue", "0", cluster=cluster)
    [old] = json_lines("tail", topic, "--from", "earliest", "--limit", "1", cluster=cluster)
    later = str(int(str(old["stored_ms"])) + 1)
    output("send", topic, "new", "--queue", "0", cluster=cluster)
    [new] = json_lines("tail", topic, "--from", later, "--limit", "1", cluster=cluster)
    assert new["body"] == "new"


def test_a_reader_that_has_enough_ends_tail_without_a_word(
    cluster: Embedded, topic: str
) -> None:
    output("send", topic, "x" * 1000, "--count", "500", cluster=cluster)
    command = " ".join((*COMETMQ, "tail", topic, "--from", "earliest", "|", "head", "-n", "1"))
    done = subprocess.run(
        command,
        shell=True,
        capture_output=True,
        env=environment(cluster.nameserver),
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.stdout.count(b"\n") == 1
    assert b"rror" not in done.stderr
    assert b"Traceback" not in done.stderr


def test_what_a_group_consumed_it_is_not_given_again(cluster: Embedded, topic: str) -> None:
    bodies = [f"message {number}" for number in range(6)]
    output("send", topic, "-", cluster=cluster, stdin="\n".join(bodies).encode())
    options = ("--group", f"group-{topic}", "--from", "earliest", "--limit", "3")
    first = json_lines("consume", topic, *options, cluster=cluster)
    second = json_lines("consume", topic, *options, cluster=cluster)
    assert sorted(str(each["body"]) for each in first + second) == bodies


def test_ctrl_c_ends_consume_in_order(cluster: Embedded, topic: str, tmp_path: Path) -> None:
    output("send", topic, "one", cluster=cluster)
    arguments = ("consume", topic, "--group", f"group-{topic}", "--from", "earliest")
    with Running(tmp_path, *arguments, nameserver=cluster.nameserver) as consume:
        consume.wait_for("one")
        assert consume.end() == 0
        assert "Traceback" not in consume.err.read_text()


# --- topics


def test_a_topic_is_created_described_listed_and_deleted(cluster: Embedded, topic: str) -> None:
    output("topic", "create", topic, "--queues", "3", cluster=cluster)
    output("send", topic, "one", "--queue", "2", cluster=cluster)
    [described] = json_lines("topic", "show", topic, cluster=cluster)
    queues = described["queues"]
    assert isinstance(queues, list)
    assert [(each["queue"], each["first"], each["next"]) for each in queues] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 1),
    ]
    [sorted_] = json_lines(
        "topic", "show", topic, "--sort=-queue", "--limit", "2", cluster=cluster
    )
    assert [each["queue"] for each in sorted_["queues"]] == [2, 1]
    again = run("topic", "create", topic, nameserver=cluster.nameserver)
    assert (again.returncode, b"exists at broker-a" in again.stderr) == (2, True)
    assert topic in output("topic", "list", cluster=cluster)
    output("topic", "delete", topic, "--yes", cluster=cluster)
    assert topic not in output("topic", "list", cluster=cluster)


def test_tables_hold_long_names_whole_even_in_a_pipe(cluster: Embedded) -> None:
    name = "long-" + "x" * 100
    output("topic", "create", name, cluster=cluster)
    assert name in output("topic", "list", cluster=cluster)


# --- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tail", "not-there"), "not-there"),
        (("topic", "show", "not-there"), "not-there"),
        (("send", "a/b", "x"), "a/b"),
        (("send", "orders", "x", "--property", "UNIQ_KEY=1"), "UNIQ_KEY"),
        (("consume", "orders", "--group", "a b"), "a b"),
        (
            ("consume", "not-there", "--group", "g"),
            "no route of topic 'not-there'; create it",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_3(
    cluster: Embedded, arguments: tuple[str, ...], said: str
) -> None:
    done = run(*arguments, nameserver=cluster.nameserver)
    error = done.stderr.decode()
    assert done.returncode == 3, error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error


@pytest.mark.parametrize("command", [("send", "t", "x"), ("tail", "t"), ("topic", "list")])
def test_a_nameserver_that_is_not_there_is_named(command: tuple[str, ...]) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = run(*command, nameserver=address)
    error = done.stderr.decode()
    assert done.returncode == 3
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert address in error


@pytest.mark.parametrize("command", [("topic", "list"), ("cluster", "list", "--watch")])
def test_a_list_that_is_interrupted_before_its_output_is_no_empty_list(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with Running(tmp_path, *command, nameserver=address) as listing:
            peer, _ = silent.accept()
            with peer:
                peer.recv(1)  # It has asked.
                assert listing.end() == 3
            assert listing.out.read_text() == ""
            assert listing.err.read_text() == "error: interrupted\n"


def test_ctrl_c_is_the_normal_end_of_a_watch(cluster: Embedded, tmp_path: Path) -> None:
    command = ("cluster", "list", "--watch")
    with Running(tmp_path, *command, nameserver=cluster.nameserver) as watch:
        watch.wait_for("broker-a")
        assert watch.end() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("send",),
        ("tail", "t", "--from", "yesterday"),
        ("send", "t", "x", "--property", "novalue"),
        ("send", "t", "--count", "3"),
        ("frobnicate",),
    ],
)
def test_wrong_arguments_are_explained_with_status_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, nameserver=None)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_a_command_that_is_not_there_is_named() -> None:
    done = run("console", nameserver=None)
    assert done.returncode == 2
    assert b"console" in done.stderr


# --- programs


def test_up_says_where_it_is_and_keeps_messages(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = ("up", "--data", str(data), "--nameserver-port", "0", "--broker-port", "0")
    for round_ in range(2):
        with Running(tmp_path, *command, nameserver=None) as up:
            where = up.wait_for(r"nameserver +(127\.0\.0\.1:\d+)", path=up.err)[1]
            up.wait_for("Ctrl-C", path=up.err)
            assert f"-n {where}" in up.err.read_text()
            assert run("send", "kept", f"in round {round_}", nameserver=where).returncode == 0
            got = run(
                "tail",
                "kept",
                "--from",
                "earliest",
                "--limit",
                str(round_ + 1),
                nameserver=where,
            )
            assert b"in round 0" in got.stdout
            assert up.end() == 0
            assert "Traceback" not in up.err.read_text()


def test_up_on_a_taken_port_says_what_to_do(cluster: Embedded, tmp_path: Path) -> None:
    taken = cluster.nameserver.rpartition(":")[2]
    done = run("up", "--data", str(tmp_path), "--nameserver-port", taken, nameserver=None)
    assert done.returncode == 3
    assert done.stderr.startswith(b"error: cannot listen on 127.0.0.1:" + taken.encode())


def test_both_programs_run_from_unmodified_conf_files(tmp_path: Path, topic: str) -> None:
    ports = free_port(), broker_port()
    where = f"127.0.0.1:{ports[0]}"
    namesrv_conf = write_conf(
        tmp_path / "namesrv.conf",
        {"listenPort": ports[0], "kvConfigPath": tmp_path / "kvConfig.json"},
    )
    broker_conf = write_conf(
        tmp_path / "broker.conf",
        {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": 0,
            "deleteWhen": "04",
            "fileReservedTime": 48,
            "brokerRole": "ASYNC_MASTER",
            "flushDiskType": "ASYNC_FLUSH",
            "listenPort": ports[1],
            "storePathRootDir": tmp_path / "store",
            "mappedFileSizeCommitLog": 64 << 20,
        },
    )
    (tmp_path / "n").mkdir()
    (tmp_path / "b").mkdir()
    names = ("nameserver", "-c", str(namesrv_conf))
    keeps = ("broker", "-c", str(broker_conf), "-n", where)
    with Running(tmp_path / "n", *names, nameserver=None) as first:
        first.wait_for("boot success")
        with Running(tmp_path / "b", *keeps, nameserver=None) as second:
            second.wait_for("boot success")
            assert run("send", topic, "x", nameserver=where).returncode == 0
            assert second.end(signal.SIGTERM) == 0
        assert first.end(signal.SIGTERM) == 0
