"""The broker as a program: from the command line to its end, and what it says when it cannot start."""

import signal
import subprocess
import sys

import pytest

from tests.support import processes
from tests.support.far_away import FarAway
from tests.support.frames import ask
from tests.support.processes import Program, wait_until
from tests.support.programs import run_program, small_cluster
from tests.support.request_fields import send_fields, topic_fields

NOBODY = "127.0.0.1:1"  # A nameserver that is not there.


@pytest.fixture
def broker(tmp_path):
    with processes.broker(tmp_path, NOBODY) as program:
        yield program


def send(address: str, body: bytes = b"hello") -> dict:
    fields = send_fields("Orders", properties="UNIQ_KEY\x01K\x02")
    header, _ = ask(address, 310, fields, body)
    return header


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(sys.executable, "-m", "cometmq.broker", *arguments, status=None)


def booted(program: Program) -> bool:
    return "boot success" in program.log.read_text()


def test_it_says_where_it_listens_and_serves_without_a_nameserver(broker):
    wait_until(lambda: booted(broker), seconds=20, what="the boot line")
    line = next(line for line in broker.log.read_text().splitlines() if "boot success" in line)
    assert line == (
        f"The broker[broker-a, {broker.address}] boot success. "
        f"serializeType=JSON and name server is {NOBODY}"
    )
    assert send(broker.address)["code"] == 0


def test_a_host_s_name_is_told_as_its_address(tmp_path):
    settings = {"brokerIP1": "localhost"}
    with processes.broker(tmp_path, NOBODY, settings=settings) as program:
        wait_until(lambda: booted(program), seconds=20, what="the boot line")
        assert f"The broker[broker-a, 127.0.0.1:{program.port}] boot" in program.log.read_text()
        assert send(program.address)["code"] == 0


def test_the_second_port_of_old_clients_takes_sends(broker):
    host, port = broker.address.split(":")
    assert send(f"{host}:{int(port) - 2}")["code"] == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_the_next_start_is_clean(tmp_path, how):
    with processes.broker(tmp_path, NOBODY) as program:
        wait_until(lambda: booted(program), seconds=20, what="the boot line")
        assert send(program.address)["extFields"]["queueOffset"] == "0"
        assert program.end(how) == 0
    assert not (tmp_path / "store" / "abort").exists()
    with processes.broker(tmp_path, NOBODY, port=program.port) as again:
        assert send(again.address)["extFields"]["queueOffset"] == "1"


def test_a_second_broker_on_the_same_store_or_port_says_so(broker, tmp_path):
    other = processes.write_conf(
        tmp_path / "other.conf",
        {"listenPort": processes.broker_port(), "storePathRootDir": tmp_path / "store"},
    )
    result = run("-c", str(other))
    assert result.returncode == 3
    assert "The broker cannot start" in result.stderr
    assert "Traceback" not in result.stderr
    result = run(
        "--listen-port", str(broker.port), "--store-path-root-dir", str(tmp_path / "second")
    )
    assert result.returncode == 3
    assert f"cannot listen on 127.0.0.1:{broker.port}" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["-c", "/nowhere/broker.conf"], 2, "/nowhere/broker.conf"),
        (["--listen-port", "many"], 2, "listenPort=many"),
        (["--flush-disk-typo", "x"], 2, "--flush-disk-type"),
        (
            ["--broker-ip1", "no-such.invalid"],
            2,
            "brokerIP1=no-such.invalid: this name cannot be resolved",
        ),
        (
            ["--broker-ip1", "10.0.0.1:10911"],
            2,
            "or a name that this machine can resolve, without a port",
        ),
        (
            ["--broker-ip2", "10.0.0.1:10912"],
            2,
            "brokerIP2=10.0.0.1:10912: it must be an IP address or a host name without a port",
        ),
        (["--broker-ip2", "[fd00::1]:10912"], 2, "write brokerIP2=fd00::1"),
        (["--broker-ip2", "tcp://a"], 2, "brokerIP2=tcp://a: it must be an IP address"),
        (
            ["--bind-address", "no..name"],
            2,
            "bindAddress=no..name: this name cannot be resolved",
        ),
        (["--broker-role", "SLAVE"], 2, "0 is the id of the master"),
        (["--message-delay-level", "1 year"], 2, "messageDelayLevel"),
        (["--ha-secret-file", "/nowhere/secret"], 2, "haSecretFile=/nowhere/secret"),
        (["--acl-enable", "true", "--acl-folder", "/nowhere"], 2, "/nowhere"),
        (["--tls-server-cert-path", "/nowhere/c.pem"], 2, "tls.server.keyPath"),
        (["--metrics-exporter-type", "OTLP_GRPC"], 2, "metricsGrpcExporterTarget"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named(arguments, status, words):
    result = run(*arguments)
    assert result.returncode == status
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    printed = run(*arguments, "-p")
    assert (printed.returncode, words in printed.stderr) == (status, True)
    assert not printed.stdout


def test_settings_are_printed_as_mqbroker_does(tmp_path):
    conf = processes.write_conf(tmp_path / "b.conf", {"brokerName": "b", "listenPort": 10921})
    every = run("-c", str(conf), "-p").stdout.splitlines()
    important = run("-c", str(conf), "-m", "-n", "n:1").stdout.splitlines()
    assert "mappedFileSizeCommitLog=1073741824" in every
    assert {"brokerName=b", "listenPort=10921", "namesrvAddr=n:1"} <= set(important)
    assert len(important) < len(every)


def test_a_topic_has_a_route_when_its_maker_is_answered(tmp_path):
    with small_cluster(tmp_path) as (nameserver, program):
        for number in range(20):
            fields = topic_fields(f"T{number}")
            made, _ = ask(program.address, 17, fields)
            assert made["code"] == 0
            route, _ = ask(nameserver.address, 105, {"topic": f"T{number}"})
            assert route["code"] == 0


def test_a_topic_has_a_route_when_its_first_sender_is_answered(tmp_path):
    far = "127.0.0.2"
    with (
        processes.nameserver(tmp_path / "ns") as nameserver,
        FarAway(far, (processes.LOOPBACK, nameserver.port), delay_ms=300),
        processes.broker(tmp_path / "broker", f"{far}:{nameserver.port}") as program,
    ):
        for number in range(4):  # The next topic comes while the last is being registered.
            sent, _ = ask(program.address, 310, send_fields(f"T{number}"), b"hello")
            assert sent["code"] == 0
            route, _ = ask(nameserver.address, 105, {"topic": f"T{number}"})
            assert route["code"] == 0


def test_it_says_that_and_why_its_kernel_is_plain(tmp_path):
    program = processes.broker(tmp_path, NOBODY)
    program.env["COMETMQ_KERNEL"] = "reference"
    with program:
        wait_until(lambda: booted(program), seconds=60, what="the boot line")
        log = program.log.read_text()
    assert "the kernel is plain Python" in log
    assert "COMETMQ_KERNEL=reference asks for it; install the package again" in log
