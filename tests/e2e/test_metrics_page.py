"""The pages of a broker's process: what Prometheus and a container's probes read."""

import json
import socket
from urllib.error import HTTPError

import pytest

from cometmq import Message, Producer
from tests.support import processes
from tests.support.metrics_page import page, samples
from tests.support.processes import free_port, wait_until


def test_metrics_and_health_of_a_process(tmp_path):
    port, log = free_port(), tmp_path / "broker.json"
    with processes.nameserver(tmp_path / "names") as names:
        settings = {"metricsPromExporterPort": port}
        program = processes.broker(tmp_path / "broker", names.address, settings=settings)
        program.env |= {"COMETMQ_LOG_FORMAT": "json", "COMETMQ_LOG_FILE": str(log)}
        with program, Producer(names.address) as producer:
            look_at(port, producer)
    said = [json.loads(line)["message"] for line in log.read_text().splitlines()]
    assert f"metrics at http://127.0.0.1:{port}/metrics" in said


def test_a_slave_says_whether_it_copies_and_not_that_its_log_takes_messages(tmp_path):
    port, said = free_port(), "ready: SLAVE, recovered, registered, it "
    role = {"brokerRole": "SLAVE", "brokerId": 1, "metricsPromExporterPort": port}
    with (
        processes.nameserver(tmp_path / "names") as names,
        processes.broker(tmp_path / "master", names.address) as master,
        processes.broker(tmp_path / "slave", names.address, settings=role),
    ):
        wait_until(
            lambda: page(port, "/readyz").startswith(f"{said}copies from 127.0.0.1:"),
            seconds=30, what="a copy",
        )  # fmt: skip
        master.kill()
        wait_until(
            lambda: page(port, "/readyz").startswith(f"{said}cannot copy from 127.0.0.1:"),
            seconds=30, what="words of the loss",
        )  # fmt: skip
        assert "accepts messages" not in page(port, "/readyz")


def look_at(port: int, producer: Producer) -> None:
    producer.send_many([Message("Watched", b"x") for _ in range(20)])
    assert page(port, "/healthz").startswith("ok: broker")
    assert page(port, "/readyz").startswith("ready: ASYNC_MASTER")
    stored = {
        labels["topic"]: value for labels, value in samples(port, "rocketmq_messages_in_total")
    }
    assert stored["Watched"] == 20
    with pytest.raises(HTTPError, match="404"):
        page(port, "/etc/passwd")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        peer.sendall(b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 2_000)
        assert peer.recv(64).startswith(b"HTTP/1.1 431 ")
    assert page(port, "/healthz").startswith("ok: broker")
