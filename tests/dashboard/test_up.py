"""`cometmq up` has a dashboard beside its broker, and is up without one where that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx

from tests.dashboard.web import text_of
from tests.support.processes import Program, free_port, wait_until


def up(folder: Path, dashboard_port: int) -> Program:
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
    command += ["--dashboard-port", str(dashboard_port)]
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
