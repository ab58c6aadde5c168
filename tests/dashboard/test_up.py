"""`cometmq up` has a dashboard beside its broker, and is up without one where that cannot be."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from tests.dashboard.web import Visitor, text_of, wait_for
from tests.support.processes import Program, free_port, wait_until


def up(folder: Path, dashboard_port: int, *more: str) -> Program:
    names = free_port()
    command = [
        sys.executable,
        "-m",
        "cometmq.cli.__main__",
        "up",
        "--data",
        str(folder / "data"),
    ]
    command += ["--nameserver-port", str(names), "--broker-port", "0"]
    command += ["--dashboard-port", str(dashboard_port), *more]
    return Program(command, log=folder / "up.log", port=names)


def test_up_has_a_dashboard_with_users_beside_its_messages(tmp_path):
    port = free_port()
    with up(tmp_path, port) as program:
        wait_until(
            lambda: b"first login" in program.log.read_bytes(), seconds=30, what="the password"
        )
        said = httpx.get(f"http://127.0.0.1:{port}/login", trust_env=False)
        assert "Log in" in text_of(said)
        assert (tmp_path / "data" / "dashboard" / "users.json").exists()
        with up(tmp_path / "second", port) as second:
            wait_until(
                lambda: b"the dashboard cannot listen on" in second.log.read_bytes(),
                seconds=30,
                what="the reason",
            )
            assert b"CometMQ is up" in second.log.read_bytes()
        assert program.stop() == 0


def test_two_brokers_are_shown_as_one_cluster(tmp_path):
    port = free_port()
    with up(tmp_path, port, "--brokers", "2") as program:
        password = wait_until(
            lambda: re.search(r"first login +admin +(\S+)", program.log.read_text()),
            seconds=30,
            what="the password",
        )
        assert password is not None
        dashboard: Any = SimpleNamespace(
            url=f"http://127.0.0.1:{port}", password=password[1], visitors=[]
        )
        visitor = Visitor(dashboard).log_in()
        wait_for(visitor, "/", "Brokers up 2 of 2")
        shown = text_of(visitor.get("/brokers"))
        assert shown.count("DefaultCluster") >= 1
        assert all(name in shown for name in ("broker-a", "broker-b"))
        visitor.http.close()
        assert program.stop() == 0
