"""What the kernel says about a program: processor time and memory of its whole process group."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def processor_seconds(group: int) -> float:
    """User and system time of all processes of a group, and of their children that have ended."""
    ticks = 0
    for process in processes_of(group):
        # Fields 14 to 17 of stat (proc(5)): utime, stime, cutime, cstime.
        ticks += sum(int(field) for field in stat_of(process)[11:15])
    return ticks / _TICKS_PER_SECOND


def anonymous_bytes(group: int) -> int:
    """Resident anonymous memory of a group: what is no file's, an anonymous mapping that could be shared included."""
    total = 0
    for process in processes_of(group):
        for line in (process / "status").read_text().splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) * 1024
    return total


def processes_of(group: int) -> Iterator[Path]:
    """The /proc folders of a process group."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                # Field 5 of stat: the process group.
                if int(stat_of(process)[2]) == group:
                    yield process
            except (FileNotFoundError, ProcessLookupError):
                continue


def stat_of(process: Path) -> list[str]:
    """The fields of stat from the third on; the second, the name, may hold blanks."""
    return (process / "stat").read_text().rpartition(")")[2].split()
