"""Runs the code blocks of a page as its reader would: in order, as they stand, against a real broker.

- ```` ```python ```` runs as if it stood alone on a page without Spark: it shows its imports and makes what it uses. On a page with Spark
  it goes on with what the blocks above it made (a session, a table). ```` ```sh ```` and ```` ```console ```` (what follows `$ `) run line by
  line in a shell. A block with a `title` is a file of that name. Every other block is a picture.
- A command of a `console` block may end with status 1, by which `cometmq` says that it found something.
- What says `until Ctrl-C` is ended by it: Python a moment after it came to that line, a command when the page ends, or where the page
  has a comment `<!-- Ctrl-C: cometmq broker -c slave.conf -->` beside the sentence that says so. A command is waited for until it is up.
- A comment `<!-- check: assert … -->` holds assertions about the blocks above it and nothing else. Nothing is set up for a reader unseen.
- A block that cannot run here has a comment directly above it that says why: `<!-- not run in CI: reason. -->`

This machine differs from a reader's in a few places (`Machine`): `localhost:9876` is the broker of the test, ports of the pages are
free ones, a store that a page takes for granted is one that a Java broker wrote, an example's message id is the last one that a
command printed, and files of Spark lie in the test's folder.
"""

import ast
import asyncio
import contextlib
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.processes import broker_port, free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "sh", "console")
SECONDS_MAX = 120.0
_CTRL_C = "until Ctrl-C"
_CTRL_C_AFTER_S = 1.0
_BLOCK = re.compile(
    r"^<!-- (?P<comment>check|Ctrl-C):\s(?P<said>.*?)\s*-->"
    r"|(?:^<!-- not run in CI: (?P<reason>[^\n]+?) -->\n\n?)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
# Programs of which a page says that they are ready, by this line.
_SERVERS = ("cometmq broker", "cometmq nameserver")
_READY = "boot success"
_STORES = ("/data/store", "/var/lib/rocketmq/store", "/var/rocketmq/store")
_GIVEN_STORE = ROOT / "tests" / "golden" / "stores" / "clean" / "store"
_EXAMPLE_ID = "7F00000108B95E2A5A3B6A7CD8E10001"
_MESSAGE_ID = re.compile(r"\b[0-9A-F]{32}\b")
# Spark's files are named from where its JVM was started, not from where the page is read.
_SPARK_FILE = re.compile(
    r"((?:\.(?:start|save|parquet)|delta_sink)\(|(?:\"path\"|\"checkpointLocation\"), |checkpoint=|read_delta\(spark, )\"(?=\w)"
)


@dataclass(frozen=True)
class Block:
    """A block of a page; `reason` says why it is not run."""

    page: Path
    line: int
    language: str  # Of a comment: "check" or "Ctrl-C".
    code: str
    reason: str | None = None
    title: str | None = None

    @property
    def where(self) -> str:
        return f"{os.path.relpath(self.page, ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that are run or written to a file, and its comments for this test."""
    text = page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        line = text[: match.start("said" if match["comment"] else "code")].count("\n") + 1
        if match["comment"]:
            found.append(Block(page, line, match["comment"], match["said"]))
        elif match["language"] in RUN or match["title"]:
            found.append(
                Block(
                    page,
                    line,
                    match["language"],
                    match["code"],
                    match["reason"],
                    match["title"],
                )
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
class Machine:
    """What differs here from the machine of a reader."""

    nameserver: str
    folder: Path
    last_id: str = _EXAMPLE_ID
    ports: dict[str, int] = field(default_factory=dict)

    def here(self, code: str) -> str:
        """Return the code of a page with this machine's addresses, ports, folders and ids."""
        for address in ("localhost:9876", "127.0.0.1:9876"):
            code = code.replace(address, self.nameserver)
        for port in ("10911", "10921", "9877"):
            if port in code:
                find = broker_port if port.startswith("10") else free_port
                code = code.replace(port, str(self._port(port, find)))
        # The same each time, so that Ctrl-C finds the command.
        ports = self._port("up's nameserver", free_port), self._port("up's broker", broker_port)
        own = f"cometmq up --nameserver-port {ports[0]} --broker-port {ports[1]}"
        for store in _STORES:
            if store in code:
                code = code.replace(store, str(self._store()))
        code = _SPARK_FILE.sub(rf'\1"{self.folder}/', code)
        return code.replace("cometmq up", own).replace(_EXAMPLE_ID, self.last_id)

    def _port(self, name: str, find: Callable[[], int]) -> int:
        if name not in self.ports:
            self.ports[name] = find()
        return self.ports[name]

    def _store(self) -> Path:
        store = self.folder / "given" / "store"
        if not store.exists():
            shutil.copytree(_GIVEN_STORE, store, copy_function=shutil.copyfile)
            for path in [store, *store.rglob("*")]:
                path.chmod(0o755 if path.is_dir() else 0o644)
        return store


@dataclass
class Reading:
    """One reading of one page."""

    nameserver: str
    folder: Path
    names: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.page_ends = contextlib.ExitStack()
        self.running: list[tuple[str, contextlib.ExitStack]] = []
        self.machine = Machine(self.nameserver, self.folder)
        self.names |= {"__name__": "page"}

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
        here = self.machine.here
        if block.title is not None:
            (self.folder / block.title).write_text(here(block.code))
        elif block.language == "Ctrl-C":
            self._press_ctrl_c(here(block.code))
        elif block.language in ("python", "check"):
            self._python(here(block.code), block)
        else:
            for command, shown in commands(block.code, block.language):
                self._shell(here(command), shown, may_find=block.language == "console")

    def _press_ctrl_c(self, command: str) -> None:
        """End the command that was begun last of those that begin so."""
        index = max(n for n, (begun, _) in enumerate(self.running) if begun.startswith(command))
        self.running.pop(index)[1].close()

    def _python(self, code: str, block: Block) -> None:
        if block.language == "check":
            assert all(isinstance(each, ast.Assert) for each in ast.parse(code).body), (
                "a check does nothing but assert"
            )
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
        is_async = "async " in code.splitlines()[marked[0] - block.line]
        arguments = block.page, marked[0], is_async, ended, pressed
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
        if alone:  # Checks may look at what it did.
            self.names.update(names)

    def _shell(self, command: str, shown: list[str], *, may_find: bool) -> None:
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
            self.running.append((command, end))
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
        allowed = (0, 1) if may_find and command.startswith("cometmq ") else (0,)
        assert done.returncode in allowed, f"{command}: status {done.returncode}\n{said}"
        self.machine.last_id = [self.machine.last_id, *_MESSAGE_ID.findall(done.stdout)][-1]
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
    page: Path, line: int, is_async: bool, ended: threading.Event, pressed: threading.Event
) -> None:
    """Press it a moment after the main thread came to a line of the page.

    A coroutine that waits is on no thread; asyncio takes Ctrl-C at any time.
    """
    main = threading.main_thread().ident
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
    ready = _READY if command.removeprefix("exec ").startswith(_SERVERS) else ""
    try:
        # What follows on the page, and Ctrl-C, come when it is up: then it has said something.
        wait_until(
            lambda: (
                (path.stat().st_size and ready in path.read_text())
                or process.poll() is not None
            ),
            seconds=SECONDS_MAX,
            what=f"a word of {command}",
        )
        yield
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
