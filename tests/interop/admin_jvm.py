"""mqadmin, its commands one after the other in one JVM (`java/src/admin/Session.java`): each JVM of its own takes seconds of a core."""

import os
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Self

from tests.interop import reference
from tests.interop.reference import CACHE, VERSION

SOURCE = reference.HERE / "java" / "src" / "admin" / "Session.java"
# A message's id begins with an address of the machine, of 4 bytes or of 16: with these alone records are of one size everywhere.
IPV4 = "-Djava.net.preferIPv4Stack=true"
SECONDS_MAX = 60


class Session:
    """One JVM, which ends with this process at the latest; it runs one command at a time.

    Args:
        version: whose commands they are.
    """

    def __init__(self, version: str) -> None:
        folder = CACHE / "mqadmin" / version
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        self._program = subprocess.Popen(
            [
                reference.java(), "-Xmx256m", *reference.quick_start(version), IPV4,
                *reference.OPENS, "-Djava.security.manager=allow", f"-Duser.home={folder}",
                f"-Drocketmq.home.dir={folder}", f"-Djava.io.tmpdir={folder / 'tmp'}", f"-Drocketmq.client.logRoot={folder}",
                *reference.class_path(SOURCE, version), "admin.Session",
            ],
            cwd=folder, env={**os.environ, "TZ": "UTC"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate()

    def run(self, home: Path, *words: str, seconds: int) -> tuple[int, str]:
        """Run a command, which may take `seconds` and signs as `home / "conf/tools.yml"` says: how long it took, ms, and what it printed.

        The JVM ends where this fails, as the answer to this command would be taken for that to the next one.
        """
        try:
            return self._run(home, words, seconds)
        except BaseException:
            self._program.kill()
            self._program.communicate()
            raise

    def _run(self, home: Path, words: tuple[str, ...], seconds: int) -> tuple[int, str]:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        line = "\t".join([str(seconds), str(home), *words])
        self._program.stdin.write(f"{line}\n".encode())
        self._program.stdin.flush()
        head = self._program.stdout.readline().split()
        assert len(head) == 3, f"the JVM of mqadmin has ended: {line}"
        _, milliseconds, size = head
        return int(milliseconds), self._program.stdout.read(int(size)).decode()


# One for all tests of a process, for one thread at a time.
_session = cache(Session)
_turn = threading.Lock()


def mqadmin(
    folder: Path,
    nameservers: str,
    *arguments: str,
    version: str = VERSION,
) -> str:
    """What `mqadmin ARGUMENTS` prints, its errors too; `folder / "home"` has the file of who signs.

    Commands of 4.x, which print nothing in the JVM of the others, have one each.
    """
    if version.startswith("4."):
        return reference.mqadmin(folder, nameservers, *arguments, version=version)
    words = [*arguments, "-n", nameservers]
    with _turn:
        session, home = _session(version), folder / "home"
        try:
            session.run(home, "!forget", seconds=SECONDS_MAX)
            _, said = session.run(home, *words, seconds=SECONDS_MAX)
        except BaseException:
            _session.cache_clear()
            raise
    assert "stopped" not in said.splitlines(), f"not through after {SECONDS_MAX} s: {said}"
    lines = (line for line in said.splitlines() if not reference.LOGBACK_NOISE.search(line))
    return "\n".join(lines).lstrip()
