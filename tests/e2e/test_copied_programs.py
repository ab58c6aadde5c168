"""Programs of tests that are copies (tests/support/forks.py): signals reach them and nobody else, and Ctrl-C leaves their exit status."""

import os
import signal
import sys
import time
from pathlib import Path

from tests.support import forks, processes


def said_of(pid: int, name: str) -> str:
    """A line of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = (line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))
    return found


def test_the_number_of_a_program_that_has_ended_is_its_own_until_its_exit_status_is_taken(
    tmp_path,
):
    command = [sys.executable, "-m", "cometmq.nameserver", "--version"]
    with (tmp_path / "said").open("wb") as said:
        program = forks.begin(
            command, stdout=said.fileno(), stderr=said.fileno(), env=os.environ
        )
    assert isinstance(program, forks.Copy)
    while said_of(program.pid, "State") != "Z (zombie)":
        time.sleep(0.01)
    time.sleep(0.1)
    assert said_of(program.pid, "State") == "Z (zombie)"
    program.send_signal(signal.SIGTERM)
    assert program.wait(10) == 0


def test_an_interrupt_of_all_ends_programs_and_not_who_tells_of_their_end(tmp_path):
    with processes.nameserver(tmp_path) as names:
        assert isinstance(names.process, forks.Copy)
        teller = int(said_of(names.process.pid, "PPid"))
        for pid in (teller, names.process.pid):
            os.kill(pid, signal.SIGINT)
        assert names.process.wait(10) in (0, -signal.SIGINT, 130)
