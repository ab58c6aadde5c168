"""Programs that run to their end beside a test."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import forks, processes
from tests.support.processes import Program


def run_program(
    *command: object,
    status: int | None = 0,
    seconds: float | None = 60,
    cwd: Path | None = None,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with the variables `env` besides ours; what it wrote is text.

    Raises:
        AssertionError: it ended with another status; None: any will do.
    """
    ended = forks.run(
        [str(part) for part in command],
        stdin=stdin.encode(),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        seconds=seconds,
    )
    texts = (each.decode().replace("\r\n", "\n") for each in (ended.stdout, ended.stderr))
    done = subprocess.CompletedProcess(ended.args, ended.returncode, *texts)
    assert status in (None, done.returncode), (
        f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
    )
    return done


def said_by_python(*arguments: object, cwd: Path | None = None, **env: str) -> str:
    """What this Python prints, without white space around it: run with `-c CODE`, `-m MODULE` or a file.

    Only the time of the whole test limits it: a wait with a limit of its own sleeps, which unit tests may not.
    """
    done = run_program(sys.executable, *arguments, seconds=None, cwd=cwd, env=env)
    return done.stdout.strip()


@contextmanager
def halted(program: Program) -> Iterator[None]:
    """The process hangs: its connections are open, and it answers nothing; afterwards it goes on."""
    os.kill(program.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(program.pid, signal.SIGCONT)


@contextmanager
def descriptor_limit(count: int | None = None) -> Iterator[None]:
    """This process may have so many descriptors, None: all that it can; so begin programs that are started meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count or hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def until_killed(program: Program) -> Iterator[Program]:
    """The program runs, and is killed in the end: in order, a Java broker needs 15 s for that."""
    try:
        yield program.start()
    finally:
        if program.process is not None:
            program.kill()


@contextmanager
def small_cluster(
    folder: Path, of_names: Mapping[str, Any] | None = None, /, **settings: object
) -> Iterator[tuple[Program, Program]]:
    """A nameserver with the settings `of_names`, and a broker with the others, all of them RocketMQ's."""
    names = processes.nameserver(folder / "nameserver", **(of_names or {}))
    with names, processes.broker(folder / "broker", names.address, settings=settings) as broker:
        yield names, broker
