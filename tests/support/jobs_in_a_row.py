"""Runs `cometmq pipeline` commands one after the other in one process, with one start of Spark.

Reads a JSON list of commands from its input and writes a JSON list of `[exit status, what came on stdout and
stderr]`: of Java and its Pythons, too, which the command starts.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from cometmq.cli.pipeline import application
from tests.support.programs import run_program

ROOT = Path(__file__).parents[2]


def said(commands: list[list[str]]) -> list[tuple[int, str]]:
    """What a process of this program says of the commands."""
    program = (sys.executable, "-m", "tests.support.jobs_in_a_row")
    done = run_program(*program, stdin=json.dumps(commands), cwd=ROOT, seconds=None)
    return [(status, text) for status, text in json.loads(done.stdout)]


def run(words: list[str]) -> Any:
    """The exit status of one command."""
    try:
        application(words[0])(args=words, prog_name="cometmq pipeline")
    except SystemExit as ended:
        return ended.code
    return None


def main() -> None:
    """Run them all."""
    answers = os.dup(1)
    told: list[tuple[Any, str]] = []
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        for words in json.load(sys.stdin):
            before = output.seek(0, os.SEEK_END)
            status = run(words)
            sys.stdout.flush()
            sys.stderr.flush()
            output.seek(before)
            told.append((status, output.read().decode()))
    with os.fdopen(answers, "w") as stream:
        json.dump(told, stream)


if __name__ == "__main__":
    main()
