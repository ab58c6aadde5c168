"""Brokers that die, nameservers that are gone: said, with since when, and no page is empty."""

import asyncio
import re

import pytest

from cometmq import AsyncProducer, Message
from tests.dashboard.web import Served, Visitor, text_of, wait_for
from tests.support import processes
from tests.support.programs import run_program, small_cluster

PAGES = ("/", "/doctor", "/brokers", "/replicas", "/topics", "/groups", "/messages", "/audit")
NEEDING = (
    "/topic?name=orders",
    "/group?name=billing",
    "/messages?by=time&topic=orders",
    "/messages?by=key&topic=orders&key=k",
    "/message?topic=orders&broker=broker-a&queue=0&offset=0",
    "/tail?topic=orders",
    "/broker?name=broker-a&id=0",
)


async def send_one(nameservers: str) -> None:
    async with AsyncProducer(nameservers) as producer:
        await producer.send(Message("orders", b"x", keys="k"))


def test_a_broker_that_dies_is_said_with_since_when_and_then_the_nameserver(tmp_path):
    with (
        small_cluster(tmp_path) as (names, broker),
        Served(tmp_path / "dashboard", names.address) as served,
    ):
        asyncio.run(send_one(names.address))
        visitor = Visitor(served).log_in()
        wait_for(visitor, "/", "1 of 1")
        broker.kill()
        for path in PAGES:
            text = wait_for(visitor, path, "has not answered since")
            assert re.search(
                r"broker-a \(0\) at 127\.0\.0\.1:\d+ has not answered since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ?, \d+ s ago",
                text,
            )
        assert "0 of 1" in text_of(visitor.get("/"))
        assert "has not answered since" in text_of(visitor.get("/part/troubles"))
        for path in NEEDING:
            said = visitor.get(path)
            assert said.status_code in (200, 404, 502), path
            assert len(text_of(said)) > 200, path
            assert "Traceback" not in said.text
        names.kill()
        wait_for(visitor, "/", "The nameserver has not answered since")
        for path in (*PAGES, *NEEDING):
            said = visitor.get(path)
            assert said.status_code in (200, 502), path
            assert "The nameserver has not answered since" in text_of(said)
            assert "Traceback" not in said.text
        said = visitor.post("/topics/create", name="nobody-hears")
        assert said.status_code == 502
        assert "Traceback" not in served.program.log.read_text()


def test_a_dashboard_starts_without_a_nameserver_and_says_so(tmp_path):
    port = processes.free_port()
    with Served(tmp_path, f"127.0.0.1:{port}") as served:
        visitor = Visitor(served).log_in()
        text = wait_for(visitor, "/", "The nameserver has not answered since")
        assert "There are no brokers" in text


def test_a_port_that_is_taken_is_said(tmp_path, served):
    second = Served(tmp_path, "127.0.0.1:1")
    command = [*second.program.command]
    command[command.index("--port") + 1] = str(served.port)
    done = run_program(*command, status=3)
    assert "cannot listen on" in done.stderr
    assert "--port" in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "0.0.0.0"], "passwords would go over the network in cleartext"),
        (["--tls-cert", "/dev/null"], "--tls-cert and --tls-key belong together"),
    ],
)
def test_a_start_that_is_not_safe_is_refused(tmp_path, options, sentence):
    command = [*Served(tmp_path, "127.0.0.1:1").program.command, *options]
    done = run_program(*command, status=None)
    assert done.returncode in (2, 3)
    assert sentence in " ".join(done.stderr.split())
