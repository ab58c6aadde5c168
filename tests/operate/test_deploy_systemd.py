"""What systemd is told by each program, at a real socket: ready when it serves, alive while it does, and that it stops."""

import platform
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.processes import Program, answers, free_port
from tests.support.programs import run_program, said_by_python

DEPLOY = Path(__file__).resolve().parents[2] / "deploy/systemd"
UNITS = sorted(DEPLOY.glob("*.service"))


def dashboard(folder: Path) -> Program:
    port = free_port()
    command = [
        sys.executable, "-m", "cometmq.cli", "dashboard", "--port", str(port),
        "--data", str(folder / "dashboard"), "-n", "127.0.0.1:1",
    ]  # fmt: skip
    return Program(command, log=folder / "dashboard.log", port=port)


PROGRAMS = {
    "namesrv": processes.nameserver,
    "broker@": lambda folder: processes.broker(folder, ""),
    "dashboard": dashboard,
}


@pytest.fixture
def systemd(tmp_path):
    """The socket that systemd would listen on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inlet:
        inlet.settimeout(60)
        inlet.bind(str(tmp_path / "notify"))
        yield inlet


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_that_it_is_ready_alive_and_stopping(tmp_path, systemd, name):
    program = PROGRAMS[name](tmp_path)
    program.env |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with program:
        first = receive(systemd, 2)
        assert answers(program.port)
        assert sorted(first) == [b"READY=1", b"WATCHDOG=1"]
        assert receive(systemd, 3) == [b"WATCHDOG=1"] * 3
        assert program.stop() == 0
    systemd.setblocking(False)
    rest = []
    while True:
        try:
            rest.append(systemd.recv(100))
        except BlockingIOError:
            break
    assert rest.count(b"STOPPING=1") == 1
    assert set(rest) <= {b"STOPPING=1", b"WATCHDOG=1"}


def test_a_loop_that_hangs_is_not_alive(tmp_path, systemd):
    program = processes.nameserver(tmp_path)
    program.env |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with program:
        while systemd.recv(100) != b"READY=1":
            pass
        assert program.process is not None
        program.process.send_signal(signal.SIGSTOP)
        systemd.settimeout(0.5)
        with pytest.raises(TimeoutError):
            receive(systemd, 5)
        program.process.send_signal(signal.SIGCONT)
        systemd.settimeout(60)
        assert systemd.recv(100) == b"WATCHDOG=1"


def receive(inlet: socket.socket, count: int) -> list[bytes]:
    return [inlet.recv(100) for _ in range(count)]


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return run_program("systemd-analyze", *words, status=None)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_unit(tmp_path, unit):
    """`verify` finds the program, so it gets one; `security` looks at the sandbox (2.5 of 10 and better is "OK")."""
    text = unit.read_text().replace("/opt/cometmq/bin/cometmq", "/bin/true")
    copy = tmp_path / unit.name.replace("@.", "@a.")
    copy.write_text(text)
    done = analyze("verify", "--recursive-errors=no", str(copy))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    done = analyze("security", "--offline=yes", "--threshold=25", str(copy))
    assert done.returncode == 0, done.stdout


def test_the_units_start_the_programs_with_options_that_they_have():
    for name, unit in zip(("broker@", "dashboard", "namesrv"), UNITS, strict=True):
        assert unit.name == f"cometmq-{name}.service"
        (words,) = re.findall(
            r"^ExecStart=/opt/cometmq/bin/(.*)$", unit.read_text(), re.MULTILINE
        )
        program, *options = words.replace("%i", "a").split()[1:]
        with_help = said_by_python("-m", "cometmq.cli", program, "--help")
        for option in options[::2]:
            assert option in with_help


@pytest.mark.parametrize("name", ["namesrv", "broker@"])
def test_a_program_works_where_no_memory_becomes_code(tmp_path, name):
    """MemoryDenyWriteExecute of the units, by the kernel's own switch (PR_SET_MDWE, Linux 6.3)."""
    if tuple(map(int, platform.release().split(".")[:2])) < (6, 3):
        pytest.skip("this kernel has no such switch")
    program = PROGRAMS[name](tmp_path)
    deny = "import ctypes,os,sys; assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0; os.execvp(sys.argv[1], sys.argv[1:])"
    program.command = [sys.executable, "-c", deny, *program.command]
    with program:
        assert answers(program.port)
        assert program.stop() == 0
