"""systemd is notified at the socket that it names, of either kind, and not at all without one."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from cometmq.process.systemd import notify, ping_watchdog


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path, monkeypatch):
    """The socket at which systemd would receive, of both kinds of name."""
    name = f"{tmp_path}/notify" if request.param == "path" else f"@cometmq-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inlet:
        inlet.settimeout(10)
        inlet.bind(name.replace("@", "\0", 1))
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield inlet


def test_a_state_arrives(systemd):
    notify("READY=1")
    notify("STOPPING=1")
    assert [systemd.recv(100), systemd.recv(100)] == [b"READY=1", b"STOPPING=1"]


def test_without_systemd_nothing_is_sent(monkeypatch, caplog):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    assert caplog.text == ""


def test_a_socket_that_is_gone_is_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
    assert "systemd cannot be notified of READY=1" in caplog.text


@pytest.mark.threads
async def test_the_watchdog_is_pinged_twice_in_its_time(systemd, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "40000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    pinging = asyncio.ensure_future(ping_watchdog())
    pings = [await asyncio.to_thread(systemd.recv, 100) for _ in range(3)]
    pinging.cancel()
    assert pings == [b"WATCHDOG=1"] * 3


@pytest.mark.parametrize(
    ("microseconds", "pid"), [("", ""), ("0", ""), ("x", ""), ("40000", "1")]
)
async def test_without_a_watchdog_of_this_process_nothing_is_pinged(
    systemd, monkeypatch, microseconds, pid
):
    monkeypatch.setenv("WATCHDOG_USEC", microseconds)
    monkeypatch.setenv("WATCHDOG_PID", pid or str(os.getpid()))
    await asyncio.wait_for(ping_watchdog(), 10)
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):
        systemd.recv(100)
