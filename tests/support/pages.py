"""Runs the code blocks of a page, as its reader would: in order, in one session, against a real broker.

- ```` ```python ```` is run as if it stood alone on a page without Spark, so that it can be copied as it stands: it shows its imports and
  makes what it uses. On a page with Spark it goes on with what the blocks above it made (a session, a table). ```` ```sh ```` and ```` ```console ````
  (what follows `$ `) line by line in a shell. Every other language is a picture of something.
- `localhost:9876` and `127.0.0.1:9876` mean the broker of the test; NAMESRV_ADDR names it too.
- What says `until Ctrl-C` is ended by it: Python a moment after it came to that line, a command when the
  page ends (what it says is in `beside.log`, of a second one in `next-beside.log`), or where `beside[0].close()` says so.
- What a page takes for granted (imports, a topic with messages) stands in a comment of the page,
  `<!-- before: … -->`: Python, run where it stands. It may set `replace`, texts of later blocks that are
  to be others (an id, a path), and enter contexts into `page_ends`; `folder` is where commands run, `project`
  where this project lies.
- A block that cannot run here has a comment directly above it that says why: `<!-- not run in CI: reason. -->`
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.processes import wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "sh", "console")
SECONDS_MAX = 120.0
_CTRL_C = "until Ctrl-C"
_CTRL_C_AFTER_S = 1.0
_BLOCK = re.compile(
    r"^<!-- before:\s(?P<before>.*?)\s*-->"
    r"|(?:^<!-- not run in CI: (?P<reason>[^\n]+?) -->\n\n?)?^```(?P<language>\w+)\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of a page; `reason` says why it is not run."""

    page: Path
    line: int
    language: str  # "before" for what stands in a comment.
    code: str
    reason: str | None

    @property
    def where(self) -> str:
        return f"{os.path.relpath(self.page, ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """What of a page is code: to be run, or said to be not."""
    text = page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        language = match["language"] or "before"
        code = match["before"] if language == "before" else match["code"]
        if language in (*RUN, "before"):
            start = match.start("code" if language != "before" else "before")
            found.append(
                Block(page, text[:start].count("\n") + 1, language, code, match["reason"])
            )
    return found


def pages(*, with_spark: bool) -> list[Path]:
    """The pages that have code, those that use Spark or the others."""
    return [
        page
        for page in PAGES
        if any(block.language in RUN for block in blocks(page))
        and with_spark == any("spark" in block.code for block in blocks(page))
    ]


def counted(those: list[Path]) -> str:
    """How many blocks of pages are run and how many are not, with the reasons."""
    all_blocks = [block for page in those for block in blocks(page) if block.language in RUN]
    skipped = [block for block in all_blocks if block.reason is not None]
    lines = [f"docs: {len(all_blocks) - len(skipped)} blocks run, {len(skipped)} not"]
    return "\n  ".join(lines + [f"{block.where}: {block.reason}" for block in skipped])


@dataclass
class Reading:
    """One reading of one page."""

    nameserver: str
    folder: Path
    names: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.page_ends = contextlib.ExitStack()
        self.beside: list[contextlib.ExitStack] = []
        self.names |= {
            "__name__": "page",
            "project": ROOT,
            "folder": self.folder,
            "replace": {},
            "page_ends": self.page_ends,
            "beside": self.beside,
        }

    def run(self, page: Path) -> None:
        """Run every block of a page that can run.

        Raises:
            AssertionError: a block failed; it says which.
        """
        with self.page_ends:
            for block in blocks(page):
                if block.reason is not None:
                    continue
                try:
                    self._run(block)
                except Exception as error:
                    raise AssertionError(f"{block.where}: {error!r}") from error

    def _run(self, block: Block) -> None:
        code = block.code
        for seen, meant in self._replacements().items():
            code = code.replace(seen, meant)
        if block.language in ("python", "before"):
            self._python(code, block)
        else:
            for command, shown in commands(code, block.language):
                self._shell(command, shown)

    def _replacements(self) -> dict[str, str]:
        ours = dict.fromkeys(("localhost:9876", "127.0.0.1:9876"), self.nameserver)
        return {**ours, **self.names["replace"]}

    def _python(self, code: str, block: Block) -> None:
        # The page's own line numbers in a traceback.
        program = compile(
            "\n" * (block.line - 1) + code,
            str(block.page),
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        )
        lines = enumerate(code.splitlines(), block.line)
        marked = [number for number, line in lines if _CTRL_C in line]
        alone = block.language == "python" and block.page not in pages(with_spark=True)
        if not marked:
            self._evaluate(program, alone=alone)
            return
        ended, pressed = threading.Event(), threading.Event()
        arguments = block.page, marked[0], ended, pressed
        threading.Thread(target=_press_ctrl_c, args=arguments).start()
        try:
            self._evaluate(program, alone=alone)
        except KeyboardInterrupt:
            return
        finally:
            ended.set()
        # A program whose last line waits for Ctrl-C may end in order, without an exception.
        assert pressed.is_set(), "it ended before Ctrl-C"

    def _evaluate(self, program: Any, *, alone: bool) -> None:
        names = {"__name__": "page"} if alone else self.names
        answer = eval(program, names)
        if inspect.iscoroutine(answer):
            asyncio.run(answer)
        if alone:  # What follows in comments may look at what it did.
            self.names.update(names)

    def _shell(self, command: str, shown: list[str]) -> None:
        beside = Path(sys.executable).parent
        env = {
            **os.environ,
            "PATH": f"{beside}:{os.environ['PATH']}",
            "NAMESRV_ADDR": self.nameserver,
            "COLUMNS": "200",
        }
        if _CTRL_C in command:
            # `exec`: the signal must reach the program, not a shell around it.
            end = self.page_ends.enter_context(contextlib.ExitStack())
            end.enter_context(_until_ctrl_c(f"exec {command}", env, self.folder))
            self.beside.append(end)
            return
        done = subprocess.run(
            ["bash", "-c", command],
            env=env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}: status {done.returncode}\n{said}"
        printed = {_masked(line) for line in done.stdout.splitlines()}
        lacking = [line for line in shown if _masked(line) not in printed]
        assert not lacking, f"{command}: the page shows\n{lacking}\nand it printed\n{said}"


def commands(code: str, language: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that the page shows as its output."""
    found: list[tuple[str, list[str]]] = []
    for line in code.replace("\\\n", " ").splitlines():
        if language == "console" and not line.startswith("$ "):
            if line.strip():
                found[-1][1].append(line)
        elif line.strip() and not line.startswith("#"):
            found.append((line.removeprefix("$ "), []))
    return found


def _press_ctrl_c(
    page: Path, line: int, ended: threading.Event, pressed: threading.Event
) -> None:
    """Press it a moment after the main thread came to a line of the page.

    A coroutine that waits is on no thread; asyncio takes Ctrl-C at any time.
    """
    main = threading.main_thread().ident
    is_async = "async " in page.read_text().splitlines()[line - 1]
    deadline = time.monotonic() + SECONDS_MAX
    while not is_async and time.monotonic() < deadline and not ended.wait(0.05):
        frame = sys._current_frames().get(main or 0)
        while frame is not None and frame.f_code.co_filename != str(page):
            frame = frame.f_back
        if frame is not None and frame.f_lineno == line:
            break
    if not ended.wait(_CTRL_C_AFTER_S):
        pressed.set()
        os.kill(os.getpid(), signal.SIGINT)


@contextlib.contextmanager
def _until_ctrl_c(command: str, env: dict[str, str], folder: Path) -> Iterator[None]:
    path = folder / "beside.log"
    while path.exists():  # What runs beside the page already has one.
        path = path.with_name(f"next-{path.name}")
    with path.open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", command], env=env, cwd=folder, stdout=log, stderr=log
        )
    try:
        yield
        # It has to be there before it can be ended in order: then it has said something.
        wait_until(
            lambda: path.stat().st_size or process.poll() is not None,
            seconds=SECONDS_MAX,
            what=f"a word of {command}",
        )
        process.send_signal(signal.SIGINT)
        status = process.wait(SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    assert status == 0, f"{command}: status {status}\n{path.read_text()}"


def _masked(line: str) -> str:
    """A line without what differs each time: numbers, ids, paths, and how wide columns are."""
    line = re.sub(r"/\S+", "PATH", line)
    line = re.sub(r"\b(?:0x)?[0-9A-Fa-f]*\d[0-9A-Fa-f]*\b", "#", line)
    return " ".join(line.split())
