"""The command `cometmq` as a process: run to its end, or running beside a test."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import orjson
from typer.main import get_command

from cometmq.cli.__main__ import app
from cometmq.embedded import Embedded
from tests.support import forks, json_tables
from tests.support.processes import wait_until
from tests.support.programs import run_program

COMETMQ = (sys.executable, "-m", "cometmq.cli")
SECONDS_MAX = 30.0


def commands(group: Any = None, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Each command of a group, or of `cometmq`, by its words."""
    group = group or get_command(app)
    context = click.Context(group)
    found: dict[tuple[str, ...], Any] = {}
    for name in group.list_commands(context):
        command, words = group.get_command(context, name), (*above, name)
        is_group = hasattr(command, "list_commands")
        found |= commands(command, words) if is_group else {words: command}
    return found


def environment(nameserver: str | None) -> dict[str, str]:
    given = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
    return given if nameserver is None else {**given, "NAMESRV_ADDR": nameserver}


def run(
    *arguments: str,
    nameserver: str | None,
    stdin: bytes = b"",
    credentials: Path | None = None,
    patience: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end; what it prints with --json is as the page of fields says.

    `credentials` is the file of who signs, `patience` what each answer may take, in seconds.
    """
    given = {"--credentials": credentials, "--timeout": patience}
    before = [part for name, value in given.items() if value for part in (name, str(value))]
    words = [*COMETMQ, *before, *arguments]
    done = forks.run(words, stdin=stdin, env=environment(nameserver), seconds=SECONDS_MAX)
    if command := json_tables.command_of(arguments):
        for line in done.stdout.splitlines():
            json_tables.check(command, orjson.loads(line))
    return done


def output(*arguments: str, cluster: Embedded, stdin: bytes = b"") -> str:
    """What a command prints that must succeed."""
    done = run(*arguments, nameserver=cluster.nameserver, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def json_lines(*arguments: str, cluster: Embedded, stdin: bytes = b"") -> list[Any]:
    """What each printed line holds as JSON: mostly objects, of some commands lists."""
    printed = output(*arguments, "--json", cluster=cluster, stdin=stdin)
    return [orjson.loads(line) for line in printed.splitlines()]


def printed(*arguments: str, cluster: Embedded) -> Any:
    """The one JSON value that a command prints."""
    return orjson.loads(output(*arguments, "--json", cluster=cluster))


def completions(typed: str, *, nameserver: str) -> list[str]:
    """What a shell is offered for the word at the end of what was typed."""
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    code = "import sys; sys.argv = ['cometmq']; from cometmq.cli.__main__ import app; app(prog_name='cometmq')"
    env = {"NAMESRV_ADDR": nameserver, "_COMETMQ_COMPLETE": "complete_bash", **words}
    done = run_program(sys.executable, "-c", code, env=env, seconds=SECONDS_MAX, status=None)
    assert not done.stderr, done.stderr
    return done.stdout.split()


class Running:
    """A command that runs until it is told to end; its output grows in files."""

    def __init__(self, folder: Path, *arguments: str, nameserver: str | None) -> None:
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = forks.begin(
                [*COMETMQ, *arguments],
                stdout=out.fileno(),
                stderr=err.fileno(),
                env=environment(nameserver),
            )

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def wait_for(
        self, pattern: str, *, path: Path | None = None, seconds: float = SECONDS_MAX
    ) -> re.Match[str]:
        """Wait until stdout (or another file) holds `pattern`."""
        file = path or self.out

        def look() -> re.Match[str] | None:
            assert self.process.poll() is None, self.err.read_text()
            return re.search(pattern, file.read_text())

        match = wait_until(look, seconds=seconds, what=f"{pattern!r} in {file.name}")
        assert match is not None
        return match

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        """End it as Ctrl-C does; its exit status."""
        self.process.send_signal(how)
        return self.process.wait(SECONDS_MAX)
