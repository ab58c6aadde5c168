"""Runs a program on a disk that fails when it is told to, and that remembers what it was asked.

`iofault.c` is compiled once a session and put before libc (LD_PRELOAD), so the program under test is
the one that users run. Without a C compiler this raises: a suite that cannot run must fail.
"""

import errno
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import Program

SOURCE = Path(__file__).with_name("iofault.c")
FOREVER = 1 << 31
_folder = tempfile.TemporaryDirectory(prefix="iofault-")  # Until this process ends.


class Call(NamedTuple):
    """One call that was carried out."""

    name: str
    result: int  # -1: it failed
    offset: int
    size: int
    path: str


class Fault(NamedTuple):
    """Calls `first` to `last` of `call` on paths that hold `part` wait, then fail unless `code` is 0."""

    call: str
    part: str
    code: int = errno.EIO
    first: int = 1
    last: int = FOREVER
    delay_ms: int = 0

    @property
    def rule(self) -> str:
        return f"{self.call} {self.part} {self.first} {self.last} {self.code} {self.delay_ms}\n"


@cache
def library() -> Path:
    """The compiled interposer.

    Raises:
        RuntimeError: there is no C compiler, or it refused the source.
    """
    target = Path(_folder.name) / "iofault.so"
    flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")
    command = ["cc", *flags, "-o", str(target), str(SOURCE), "-ldl", "-pthread"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        raise RuntimeError("no cc here: the fault suite needs a C compiler") from None
    if done.returncode != 0:
        raise RuntimeError(f"{SOURCE.name} cannot be compiled:\n{done.stderr}")
    return target


class FaultyDisk:
    """The disk of one program; give it to `Program` objects with `under`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._rules = folder / "iofault.rules"
        self._record = folder / "iofault.record"
        self._rules.touch()

    def under(self, program: Program) -> Program:
        """The same program, not yet started, on this disk."""
        program.env |= {
            "LD_PRELOAD": str(library()),
            "IOFAULT_RULES": str(self._rules),
            "IOFAULT_RECORD": str(self._record),
        }
        return program

    def fail(self, *faults: Fault) -> None:
        """From now on only these faults; their calls are counted from now."""
        self._replace_rules("".join(fault.rule for fault in faults))

    def heal(self) -> None:
        """All is well from now on, the clock too."""
        self._replace_rules("")

    def shift_clock(self, seconds: int) -> None:
        """The program's wall clock is `seconds` before or behind this machine's from now on."""
        self._replace_rules(f"clock {seconds}\n")

    def _replace_rules(self, text: str) -> None:
        fresh = self._rules.with_suffix(".fresh")
        fresh.write_text(text)
        fresh.replace(self._rules)

    def calls(self) -> list[Call]:
        """What has been carried out so far, in the order in which it ended."""
        lines = self._record.read_text(errors="surrogateescape").splitlines()
        fields = [line.split(" ", 4) for line in lines]
        return [
            Call(name, int(result), int(offset), int(size), path)
            for name, result, offset, size, path in fields
        ]

    def has_synced(self, part: str) -> bool:
        """Whether files whose path holds `part` were written, and each synced since its last write."""
        last: dict[str, str] = {}
        for call in self.calls():
            if part in call.path and call.result >= 0 and call.name in ("pwrite", "fdatasync"):
                last[call.path] = call.name
        return set(last.values()) == {"fdatasync"}
