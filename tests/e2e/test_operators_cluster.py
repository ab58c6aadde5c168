"""`cometmq cluster` for operators, as processes against a real cluster."""

import os
import signal
from pathlib import Path

import orjson

from cometmq import Admin
from cometmq.embedded import Embedded
from tests.support.command_line import (
    COMETMQ,
    SECONDS_MAX,
    Running,
    completions,
    output,
    printed,
    run,
)
from tests.support.programs import halted, run_program, small_cluster


def test_each_prints_json_as_its_page_says(cluster: Embedded) -> None:
    """`command_line.run` compares what is printed with --json with that page."""
    for command in ("list", "show broker-a", "config broker-a --defaults", "replicas"):
        printed("cluster", *command.split(), cluster=cluster)


def test_a_table_of_replicas_without_a_group_has_no_columns_of_groups(
    cluster: Embedded,
) -> None:
    head = output("cluster", "replicas", cluster=cluster).splitlines()[0]
    assert head.split() == [
        "broker", "id", "address", "state", "offset", "gap", "behind_s", "error",
    ]  # fmt: skip


def test_what_nobody_set_is_not_called_set(tmp_path: Path) -> None:
    settings = {"brokerName": "plain", "fileReservedTime": 48}
    with small_cluster(tmp_path, **settings) as (names, _):
        done = run("cluster", "config", "plain", "--json", nameserver=names.address)
    assert {line["key"]: line["source"] for line in orjson.loads(done.stdout)} == dict.fromkeys(
        (
            *("bindAddress", "brokerName", "fileReservedTime", "listenPort"),
            *("mappedFileSizeCommitLog",),
            *("metricsPromExporterPort", "namesrvAddr", "osPageCacheBusyTimeOutMills"),
            *("storePathCommitLog", "storePathRootDir"),
        ),
        "set",
    )


def test_a_setting_is_changed_and_says_so(cluster: Embedded) -> None:
    [before] = printed("cluster", "config", "broker-a", "transactionCheckMax", cluster=cluster)
    assert (before["value"], before["source"]) == ("15", "default")
    output("cluster", "set", "broker-a", "transactionCheckMax=32", cluster=cluster)
    [line] = printed("cluster", "config", "broker-a", "transactionCheckMax", cluster=cluster)
    assert (line["value"], line["default"], line["source"]) == ("32", "15", "changed")
    for setting, status, says in (
        ("listenPort=1", 3, b"listenPort: change it in the configuration file"),
        ("transactionChekMax=1", 2, b"has no setting transactionChekMax"),
        ("transactionCheckMax", 2, b"is not a pair"),
    ):
        refused = run("cluster", "set", "broker-a", setting, nameserver=cluster.nameserver)
        assert refused.returncode == status
        assert says in b" ".join(refused.stderr.split())


def test_a_drained_broker_is_not_in_the_routes_of_producers(cluster: Embedded) -> None:
    with Admin(cluster.nameserver) as admin:
        admin.topics.create("drained", queues=2)
        output("cluster", "drain", "broker-a", cluster=cluster)
        assert admin.topics.route("drained").write_queues("drained") == []
        assert len(admin.topics.route("drained").read_queues("drained")) == 2
        [line] = printed("cluster", "list", cluster=cluster)
        assert line["state"] == "drained"
        output("cluster", "undrain", "broker-a", cluster=cluster)
        assert len(admin.topics.route("drained").write_queues("drained")) == 2
    unknown = run("cluster", "drain", "nowhere", nameserver=cluster.nameserver)
    assert unknown.returncode == 3
    assert b"no broker 'nowhere' is registered; registered are: broker-a" in unknown.stderr


def test_a_member_that_is_away_is_told_and_is_status_1(tmp_path) -> None:
    with small_cluster(tmp_path) as (names, broker):
        assert run("cluster", "list", nameserver=names.address).returncode == 0
        with halted(broker):
            done = run("cluster", "list", "--json", nameserver=names.address, patience=1)
    assert done.returncode == 1
    [line] = orjson.loads(done.stdout)
    assert line["state"] == "away"
    assert "did not answer in time" in line["error"]


def test_a_broker_that_is_slow_is_waited_for_as_long_as_is_said(tmp_path) -> None:
    look = ("cluster", "show", "broker-a")
    with small_cluster(tmp_path) as (names, broker):
        assert run(*look, nameserver=names.address, patience=0.01).returncode == 2
        patient = Running(tmp_path, "--timeout", "600", *look, nameserver=names.address)
        with halted(broker), patient:
            # Each of these is through after the time that it has: whoever has more still waits then.
            hasty = [run(*look, nameserver=names.address, patience=1) for _ in range(2)]
            assert patient.process.poll() is None
            os.kill(broker.pid, signal.SIGCONT)
            assert patient.process.wait(SECONDS_MAX) == 0
    assert "bootTimestamp" in patient.out.read_text()
    for done in hasty:
        assert (done.returncode, done.stdout) == (3, b"")
        said = done.stderr.decode()
        assert "did not answer in time: GET_BROKER_RUNTIME_INFO had 1 s" in said
        assert "cometmq --timeout SECONDS" in said


def test_a_narrow_terminal_and_a_closed_pipe_lose_nothing(cluster: Embedded) -> None:
    env = {"NAMESRV_ADDR": cluster.nameserver, "COLUMNS": "40"}
    assert cluster.broker in run_program(*COMETMQ, "cluster", "list", env=env).stdout
    command = f"{' '.join(COMETMQ)} cluster show broker-a | true; echo ${{PIPESTATUS[0]}}"
    piped = run_program("bash", "-c", command, env=env)
    assert (piped.stdout, piped.stderr) == ("0\n", "")


def test_a_shell_is_offered_the_names_that_there_are(cluster: Embedded) -> None:
    offered = completions("cometmq cluster show bro", nameserver=cluster.nameserver)
    assert offered == ["broker-a"]
