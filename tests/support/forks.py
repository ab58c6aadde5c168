"""Our programs as copies of a process that has imported them: a start that does not read the same thousand files again.

    python -m tests.support.forks MODULE

Of the processor time of a start of a broker two thirds are Python's own start and imports; of a command, nearly all. A copy goes on as
`python -m MODULE` does behind its imports, with its own arguments, environment, folder, files and limits, and ends as Python ends. `begin`
starts a program as ever where more than that may be different. So do the commands on the pages (tests/support/pages.py), tests of
starts, and all that runs in containers, services and wheels.
"""

import gc
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

# The module whose `main` runs, and what most commands import when they begin.
IMPORTS = {
    "cometmq.broker": ("cometmq.broker.__main__",),
    "cometmq.nameserver": ("cometmq.nameserver.__main__",),
    "cometmq.cli": (
        "cometmq.cli.__main__",
        "cometmq.client.admin.admin",
        "importlib.metadata",
        "pydantic.main",
    ),
    "tests.support.good_client": ("tests.support.good_client",),
    "tests.support.replica": ("tests.support.replica",),
}
# Variables that are read when a program runs, and not by Python or an import.
READ_LATE = ("COMETMQ_", "NAMESRV_ADDR", "XDG_CONFIG_HOME", "PYTEST_CURRENT_TEST")
_REQUEST_BYTES_MAX = 100_000
_ROOT = Path(__file__).resolve().parents[2]


class Copy:
    """A copy that was started, with what tests use of a Popen.

    Attributes:
        pid: its process.
        returncode: as that of a Popen; None: it has not ended, as far as anybody looked.
    """

    def __init__(self, told: socket.socket) -> None:
        """`told` is where the number of its process comes from and, when it has ended, its exit status."""
        self._told = told
        self.pid = self._number()
        self.returncode: int | None = None

    def _number(self) -> int:
        said = self._told.recv(4)
        assert said, "the process that tells of a copy has ended"
        return int.from_bytes(said, signed=True)

    def poll(self) -> int | None:
        """Its exit status; None: it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit status.

        Raises:
            subprocess.TimeoutExpired: it runs for longer than `timeout` seconds.
        """
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = self._number()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0) from None
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        # Until its exit status was taken, nobody else can have its number.
        if self.returncode is None:
            with suppress(ProcessLookupError):  # Who tells of it has ended too.
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Origin:
    """The process whose copies a program's starts are; it ends with this one."""

    def __init__(self, module: str) -> None:
        self.environment = dict(os.environ)
        self._asks, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with asked:
            command = [sys.executable, "-m", __name__, module]
            self._process = subprocess.Popen(
                command, stdin=asked.fileno(), stdout=subprocess.DEVNULL, cwd=_ROOT
            )

    def can_be(self, env: Mapping[str, str]) -> bool:
        """Whether all that a program with this environment has imported is the same here."""
        changed = {name for name, _ in self.environment.items() ^ env.items()}
        return "COMETMQ_KERNEL" not in changed and all(
            each.startswith(READ_LATE) for each in changed
        )

    def copy(
        self,
        arguments: Sequence[str],
        files: Sequence[int],
        env: Mapping[str, str],
        folder: Path,
    ) -> Copy:
        """Start a copy in a folder; `files` are its stdin, stdout and stderr."""
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        request = json.dumps([arguments, dict(env), str(folder), limits]).encode()
        told, tells = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with tells:
            socket.send_fds(self._asks, [request], [*files, tells.fileno()])
        return Copy(told)


origin = cache(Origin)
_anew: list[bool] = []


@contextmanager
def anew() -> Iterator[None]:
    """Programs that are started within the block are no copies: for tests of what the system shows of a program."""
    _anew.append(True)
    try:
        yield
    finally:
        _anew.pop()


def begin(
    command: Sequence[str],
    *,
    stdout: int,
    stderr: int,
    env: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    cwd: Path | None = None,
    group: int | None = None,
) -> "subprocess.Popen[bytes] | Copy":
    """Start a program in a folder and a process group, None: ours; in a test as a copy where that is the same to it.

    Other threads than the main one may be in another network (tests/support/other_machine.py).
    """
    if (
        "PYTEST_CURRENT_TEST" in os.environ
        and group is None
        and not _anew
        and [*command[:2]] == [sys.executable, "-m"]
        and command[2] in IMPORTS
        and threading.current_thread() is threading.main_thread()
        and (known := origin(command[2])).can_be(env)
    ):
        with Path(os.devnull).open("rb") as nothing:
            given = nothing.fileno() if stdin == subprocess.DEVNULL else stdin
            return known.copy(command[3:], [given, stdout, stderr], env, cwd or Path.cwd())
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=env,
        cwd=cwd,
        process_group=group,
    )


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: bytes = b"",
    cwd: Path | None = None,
    seconds: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Begin a program and wait for its end; what it wrote, and its exit status.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds`, and was killed.
    """
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        files = {"stdin": given.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        program = begin(command, env=env, cwd=cwd, **files)
        try:
            status = program.wait(seconds)
        finally:
            program.kill()
            program.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, status, out.read(), err.read())


# --- the process that is copied


def serve(module: str) -> list[Any]:
    """Fork a copy for each request; return there with what it is to be, and exit when nobody can ask any more."""
    asked = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Ctrl-C is for the tests and their programs: these may take a while to end.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, files, _, _ = socket.recv_fds(asked, _REQUEST_BYTES_MAX, 4)
        if not request:
            sys.exit()
        if not os.fork():
            break
        for each in files:
            os.close(each)
    asked.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    tells = socket.socket(fileno=files.pop())
    if pid := os.fork():
        # This process is there for the exit status of the program, which only its parent is told.
        for each in (*files, 0, 1, 2):
            os.close(each)
        with suppress(OSError):  # Nobody may want to know it any more.
            tells.send(pid.to_bytes(4, signed=True))
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            tells.send(status.to_bytes(4, signed=True))
            # Until that was taken its number is no other process's: a signal may be on its way.
            tells.recv(1)
        os.waitpid(pid, 0)
        os._exit(0)
    signal.signal(signal.SIGINT, interrupted)
    tells.close()
    for place, each in enumerate(files):
        os.dup2(each, place)
        os.close(each)
    return list(json.loads(request))


def main(module: str) -> None:
    """Import a program, and be that program in each copy."""
    entry, *_ = map(import_module, IMPORTS[module])
    gc.collect()
    gc.freeze()
    arguments, env, folder, limits = serve(module)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, tuple(limits))
    sys.modules["__main__"] = entry  # As with -m: help pages name it.
    sys.argv = [str(entry.__file__), *arguments]
    sys.exit(entry.main())


if __name__ == "__main__":
    main(sys.argv[1])
