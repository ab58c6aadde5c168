"""The logs of the programs: what they say at a start, who changed what, at which level, in which file, and as JSON."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.command_line import COMETMQ, run
from tests.support.processes import Program, wait_until
from tests.support.programs import run_program
from tests.support.request_fields import send_fields

CREATE_TOPIC, DELETE_TOPIC, CREATE_GROUP, DELETE_GROUP = 17, 215, 200, 207
UPDATE_CONFIG, SEND = 25, 310
PUT_KV, WIPE, UPDATE_NAMESRV_CONFIG = 100, 205, 318
TOPIC = {
    "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
}  # fmt: skip
SECONDS_MAX = 20.0


class Life(NamedTuple):
    """A nameserver with a log of JSON, and a broker that was killed and now writes JSON into a file.

    Attributes:
        first: The lines of the broker's first run, as text.
        log: The file of its second run.
    """

    names: Program
    broker: Program
    first: list[str]
    log: Path
    folder: Path


@pytest.fixture(scope="module")
def life(tmp_path_factory) -> Iterator[Life]:
    folder = tmp_path_factory.mktemp("logs")
    names = processes.nameserver(folder / "names")
    names.env["COMETMQ_LOG_FORMAT"] = "json"
    broker = processes.broker(
        folder, names.address, settings={"unknownKey": 1, "flushDsikType": 2}
    )
    log = folder / "logs" / "broker.log"
    log.parent.mkdir()
    with names, broker:
        with Stranger(broker.address) as peer:
            for _ in range(10):
                assert peer.ask(SEND, send_fields("orders"), b"x" * 1000).code == 0
        broker.kill()
        first = broker.log.read_text().splitlines()
        broker.log.unlink()
        broker.env |= {"COMETMQ_LOG_FORMAT": "json", "COMETMQ_LOG_FILE": str(log)}
        broker.start()
        yield Life(names, broker, first, log, folder)


def objects(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, each of which must be JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def messages(path: Path) -> list[str]:
    return [each["message"] for each in objects(path)]


def found(pattern: str, lines: list[str]) -> re.Match[str]:
    matches = [match for line in lines if (match := re.search(pattern, line))]
    assert len(matches) == 1, "\n".join([pattern, *lines])
    return matches[0]


def audited(path: Path, request: str) -> dict[str, Any]:
    """The newest audit line of a request."""

    def look() -> list[dict[str, Any]]:
        return [each for each in objects(path) if each.get("request") == request]

    line = wait_until(look, seconds=SECONDS_MAX, what=f"a line of {request}")[-1]
    assert line["logger"] == "cometmq.audit"
    return line


def test_a_start_says_what_runs_with_which_files_and_where(life):
    lines = life.first
    what = rf"CometMQ {re.escape(version('cometmq'))} with \S.* kernel, Python 3\.\d+\.\d+, Linux \S+ \S+, process \d+$"
    assert "cometmq.broker: CometMQ" in lines[0]
    found(what, lines)
    found(rf"configuration: {life.folder}/broker\.conf$", lines)
    found(
        r"broker broker-a of cluster DefaultCluster, ASYNC_MASTER with id 0; nameservers: "
        + re.escape(life.names.address),
        lines,
    )
    found(rf"store {life.folder}/store: it has no messages; .* nothing was cut$", lines)
    port = life.broker.port
    found(
        rf"listening on 127\.0\.0\.1:{port}, 127\.0\.0\.1:{port - 2} \(for old clients\), 127\.0\.0\.1:\d+ \(for slaves\); "
        rf"clients get the address 127\.0\.0\.1:{port}; access control is off$",
        lines,
    )
    found(r"the broker serves after \d+\.\d s$", lines)
    found(r"^The broker\[broker-a, \S+\] boot success\. ", lines)
    # Warnings about the file are singly there, however many.
    found("unknown setting unknownKey", lines)
    found("unknown setting flushDsikType; did you mean flushDiskType", lines)


def test_a_start_after_a_kill_says_what_recovery_found(life):
    line = found(r"the last stop was not clean", messages(life.log)).string
    match = re.search(
        r"its log has the physical offsets 0 to (\d+), checked from (\d+) on in \d+ ms; nothing was cut$",
        line,
    )
    assert match is not None, line
    end, start = map(int, match.groups())
    assert end > 10_000 > start


def test_each_line_of_a_stream_is_json(life):
    for stream in (life.names.log, life.broker.log):
        ready = objects(stream)
        assert sum("boot success" in each["message"] for each in ready) == 1
        assert all({"time", "level", "logger", "message"} <= each.keys() for each in ready)
    assert any("CometMQ " in each for each in messages(life.names.log))
    found(rf"configuration: {life.folder}/names/namesrv\.conf$", messages(life.names.log))
    found(rf"Listening on {re.escape(life.names.address)}; access control is off", messages(life.names.log))  # fmt: skip
    assert not life.broker.log.read_text().count('"level": "WARNING"'), "these are in its file"


def test_a_failed_start_is_json_too_and_in_the_file(life, tmp_path):
    env = {"COMETMQ_LOG_FORMAT": "json", "COMETMQ_LOG_FILE": str(tmp_path / "a.log")}
    for module, who in (("broker", "The broker"), ("nameserver", "The nameserver")):
        command = [sys.executable, "-m", f"cometmq.{module}", "--listen-port", "much"]
        done = run_program(*command, env=env, status=2)
        said = json.loads(done.stderr)
        assert said["level"] == "CRITICAL"
        assert said["message"].startswith(f"{who} cannot start: command line: listenPort=much")
        assert said["message"] in messages(tmp_path / "a.log")


def test_who_changes_something_at_the_broker_is_in_the_audit(life):
    group = {"groupName": "billing", "consumeEnable": False}
    with Stranger(life.broker.address) as peer:
        assert peer.ask(CREATE_TOPIC, TOPIC).code == 0
        address = f"127.0.0.1:{peer.socket.getsockname()[1]}"
        assert peer.ask(CREATE_GROUP, {}, json.dumps(group).encode()).code == 0
        assert (
            peer.ask(DELETE_GROUP, {"groupName": "billing", "cleanOffset": "false"}).code == 0
        )
        assert peer.ask(DELETE_TOPIC, {"topic": "TBW102\n{"}).code != 0
    made = audited(life.log, "UPDATE_AND_CREATE_TOPIC")
    assert (made["outcome"], made["user"], made["address"]) == ("done", None, address)
    assert made["level"] == "INFO"
    assert made["what"].startswith("topic=orders, ")
    assert "readQueueNums=4" in made["what"]
    changed = audited(life.log, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP")
    assert "groupName=billing, consumeEnable=false" in changed["what"]
    assert audited(life.log, "DELETE_SUBSCRIPTIONGROUP")["outcome"] == "done"
    failed = audited(life.log, "DELETE_TOPIC_IN_BROKER")
    assert (failed["level"], failed["outcome"]) == ("WARNING", "failed")
    assert failed["what"] == r"topic=TBW102\n{"
    assert failed["reason"].startswith("INVALID_PARAMETER: ")


def test_who_changes_something_at_the_nameserver_is_in_the_audit(life):
    with Stranger(life.names.address) as peer:
        assert peer.ask(PUT_KV, {"namespace": "N", "key": "k", "value": "v"}).code == 0
        assert peer.ask(WIPE, {"brokerName": "broker-z"}).code == 0
    assert audited(life.names.log, "PUT_KV_CONFIG")["what"] == "namespace=N, key=k, value=v"
    wiped = audited(life.names.log, "WIPE_WRITE_PERM_OF_BROKER")
    assert (wiped["what"], wiped["reason"]) == ("brokerName=broker-z", "wipeTopicCount=0")


def test_ordinary_requests_are_not_in_the_audit(life):
    with Stranger(life.broker.address) as peer:
        assert peer.ask(SEND, send_fields("orders"), b"x").code == 0
    assert "SEND_MESSAGE" not in life.log.read_text()


def test_the_level_changes_while_it_runs_and_the_audit_stays(life):
    with Stranger(life.names.address) as names, Stranger(life.broker.address) as peer:
        for level in ("error", "loud", "info"):
            said = run(
                "cluster", "set", "broker-a", f"logLevel={level}", nameserver=life.names.address
            )  # fmt: skip
            assert (said.returncode == 0) is (level != "loud"), said.stderr
            line = audited(life.log, "UPDATE_BROKER_CONFIG")
            assert line["what"] == f"logLevel={level}"
            assert (line["outcome"] == "done") is (level != "loud")
            if level == "error":
                assert b"one of debug, info, warning, warn, error" in (
                    peer.ask(UPDATE_CONFIG, body=b"logLevel=quiet").remark.encode()
                )
        for level in ("warning", "info"):
            assert names.ask(UPDATE_NAMESRV_CONFIG, body=f"logLevel={level}".encode()).code == 0
            line = audited(life.names.log, "UPDATE_NAMESRV_CONFIG")
            assert (line["outcome"], line["what"]) == ("done", f"logLevel={level}")
        before = len(objects(life.names.log))
        # At "warning" the nameserver would not say that a broker has registered.
        assert names.ask(UPDATE_NAMESRV_CONFIG, body=b"logLevel=warning").code == 0
        life.broker.stop()
        life.broker.start()
        news = [each for each in objects(life.names.log)[before:] if each["logger"] != "cometmq.audit"]  # fmt: skip
        assert not news
        assert names.ask(UPDATE_NAMESRV_CONFIG, body=b"logLevel=info").code == 0
    found(r"broker\.conf and .*/broker\.conf\.overlay, which has the changes by requests$", messages(life.log))  # fmt: skip
    found(r"the last stop was clean; ", messages(life.log))


def test_sighup_opens_the_file_anew(life):
    for number in (1, 2):
        moved = life.log.with_name(f"moved.{number}")
        life.log.rename(moved)
        os.kill(life.broker.pid, signal.SIGHUP)
        wait_until(life.log.exists, seconds=SECONDS_MAX, what="the new file")
        wait_until(
            lambda: "was opened anew (SIGHUP)" in life.log.read_text(), seconds=SECONDS_MAX, what="its first line"
        )  # fmt: skip
        size = moved.stat().st_size
        with Stranger(life.broker.address) as peer:
            assert peer.ask(CREATE_TOPIC, TOPIC).code == 0
        assert audited(life.log, "UPDATE_AND_CREATE_TOPIC")["outcome"] == "done"
        assert moved.stat().st_size == size
    assert life.broker.process is not None
    assert life.broker.process.poll() is None


def test_without_a_file_sighup_ends_in_order_and_under_nohup_it_does_nothing(tmp_path):
    command = [sys.executable, "-m", "cometmq.nameserver", "--listen-port", "0", "--kv-config-path", ""]  # fmt: skip
    for is_ignored in (True, False):
        handler = signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        finally:
            signal.signal(signal.SIGHUP, handler)
        with process:
            assert process.stdout is not None
            assert "boot success" in process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            if is_ignored:
                process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            assert process.stderr is not None
            assert "the nameserver stops" in process.stderr.read()


def test_the_dashboard_has_the_same_log(life, tmp_path):
    log = tmp_path / "dashboard.log"
    env = {**os.environ, "COMETMQ_LOG_FORMAT": "json"}
    command = [*COMETMQ, "dashboard", "-n", life.names.address, "--port", "0", "--data", str(tmp_path / "data")]  # fmt: skip
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=env) as process:  # fmt: skip
        try:
            wait_until(lambda: "The first user can log in" in log.read_text(), seconds=30, what="the dashboard")  # fmt: skip
            url = found(r"the dashboard is at (http://\S+); nameserver ", messages(log))[1]
            data = urlencode({"name": "mallory", "password": "guess\n"}).encode()
            with pytest.raises(HTTPError, match="403"):
                urlopen(f"{url}/login", data=data, timeout=30)
        finally:
            process.terminate()
        assert process.wait(30) == 0
    assert "CometMQ " in messages(log)[0]
    password = (tmp_path / "data" / "first-password").read_text().strip()
    assert password not in log.read_text()
    assert "guess" not in log.read_text()
    line = audited(log, "'log in'")
    assert (line["outcome"], line["user"], line["address"]) == (
        "refused",
        "mallory",
        "127.0.0.1",
    )
